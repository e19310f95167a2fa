//! Calls in the columns that all formats share: entered and left, thread starts, and marks at ends of frames.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::lens::MARK_FRAME;
use quipu_model::lens::{CallEdge, ThreadEvent};
use quipu_model::{Columns, Scan, ShardId, Trace};

fn lenses() -> Columns {
    Columns::CALLS | Columns::THREADS | Columns::MARKS
}

#[test]
fn each_call_is_entered_and_left_at_its_record() {
    let trace = common::written(
        "function 5 glFoo(a, b)\n\
         function 9 glXSwapBuffers(dpy, drawable)\n\
         0: glFoo(a = 1, b = -2) = 7\n\
         1: @3 glFoo(a = 1.5f, b = \"words\")\n\
         2: glXSwapBuffers(dpy = 0x10, drawable = 2)\n\
         3: @3 enter glFoo(a = [4])\n",
    );
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(lenses())).unwrap();
    // A batch has calls of one thread; its rows count from its first.
    let (mut edges, mut args) = (Vec::new(), Vec::new());
    let (mut threads, mut marks, mut first) = (Vec::new(), Vec::new(), 0);
    while let Some(batch) = reader.read().unwrap() {
        for row in 0..batch.calls.len() {
            let at = first + batch.calls.at[row];
            edges.push((at, batch.calls.function[row], batch.calls.edge[row], batch.calls.result.get(row)));
            args.push(batch.calls.args.get(row).to_vec());
        }
        threads
            .extend(batch.threads.at.iter().zip(&batch.threads.what).map(|(at, what)| (first + at, *what)));
        let values = batch.marks.kind.iter().zip(&batch.marks.value);
        marks
            .extend(batch.marks.at.iter().zip(values).map(|(at, (kind, value))| (first + at, *kind, *value)));
        first += batch.span.records;
    }
    let (enter, leave) = (CallEdge::Enter, CallEdge::Leave);
    assert_eq!(
        edges,
        [
            (0, 5, enter, None),
            (0, 5, leave, Some(7)),
            (1, 5, enter, None),
            (1, 5, leave, None),
            (2, 9, enter, None),
            (2, 9, leave, None),
            // It never returned.
            (3, 5, enter, None),
        ]
    );
    let minus_two = (-2_i64).cast_unsigned();
    // Only the entry of a call has its arguments.
    let expected: [&[u64]; 7] =
        [&[1, minus_two], &[], &[1.5f32.to_bits().into(), 0], &[], &[0x10, 2], &[], &[0]];
    assert_eq!(args, expected);
    assert_eq!(threads, [(0, ThreadEvent::Start), (1, ThreadEvent::Start)]);
    assert_eq!(marks, [(2, MARK_FRAME, 0)]);
    assert_eq!(trace.mark_name(MARK_FRAME), "frame");
}

#[test]
fn marks_of_frames_and_beginnings_of_threads_are_those_of_the_whole_trace_for_any_batches() {
    // Frames and threads must match apitrace's `info` and the traced program.
    for (name, n_threads) in [("kinds", 1), ("threads-3x20", 3), ("glxgears-300", 1)] {
        let golden: serde_json::Value =
            serde_json::from_slice(&common::golden(&format!("golden/{name}.info.json"))).unwrap();
        let trace = common::open(name);
        for batch_records in [1, 7, 1000] {
            let scan = Scan { batch_records, ..Scan::new(ShardId(0)).columns(lenses()) };
            let mut reader = trace.scan(&scan).unwrap();
            let (mut frames, mut threads, mut entered) = (Vec::new(), 0, 0);
            while let Some(batch) = reader.read().unwrap() {
                frames.extend_from_slice(&batch.marks.value);
                threads += batch.threads.len();
                entered += batch.calls.edge.iter().filter(|edge| **edge == CallEdge::Enter).count() as u64;
            }
            let n_frames = golden["FramesCount"].as_u64().unwrap();
            assert_eq!(frames, (0..n_frames).collect::<Vec<_>>(), "{name}, {batch_records}");
            assert_eq!(threads, n_threads, "{name}, {batch_records}");
            let calls = golden["Frames"]
                .as_array()
                .unwrap()
                .iter()
                .map(|frame| frame["TotalCalls"].as_u64().unwrap());
            assert!(entered >= calls.sum(), "{name}");
        }
    }
}
