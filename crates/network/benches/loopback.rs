//! Throughput from files to files over loopback, with and without TLS, for one sender and for eight; and peak memory.
//!
//! `cargo bench -p quipu-network`, with `-- MIB` for streams of that size (default 512). Files are in the temporary folder
//! (`TMPDIR`), so that its disk is measured, too; `TMPDIR=/dev/shm` leaves the disk out. Collector and senders are threads of
//! one process.

#![allow(clippy::unwrap_used)]

use quipu_network::collect::{Collector, Door, Limits};
use quipu_network::identity::{self, Guard, Identity};
use quipu_network::message::Proof;
use quipu_network::send::{Input, SILENCE, Target, send};
use quipu_stream::codec::Codec;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::write::{Options, Writer};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

fn main() {
    let mib = std::env::args().filter_map(|arg| arg.parse::<u64>().ok()).next().unwrap_or(512);
    let folder = std::env::temp_dir().join(format!("quipu-bench-network-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let sources: Vec<PathBuf> = (0..8).map(|nth| source(&folder, nth, mib << 20)).collect();
    for (name, with_tls) in [("tls", true), ("plain", false)] {
        for n_senders in [1, 8] {
            let mut all: Vec<f64> = (0..3).map(|_| run(&folder, &sources[..n_senders], with_tls)).collect();
            all.sort_by(f64::total_cmp);
            println!(
                "{name}, {n_senders} senders of {mib} MiB: {:.0} MB/s in sum (best of three; worst {:.0}); peak memory {} MiB",
                all[2],
                all[0],
                peak_mib()
            );
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Peak memory of this process in MiB, from `VmHWM`, which is in KiB.
fn peak_mib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Writes a stream of a producer in frames of 256 KiB.
fn source(folder: &Path, nth: u64, n_bytes: u64) -> PathBuf {
    let path = folder.join(format!("{nth}.quipu"));
    let mut options = Options { codec: Codec::None, ..Options::new("bench") };
    let mut uuid = [9; 16];
    uuid[..8].copy_from_slice(&(nth + 1).to_le_bytes());
    options.producer.uuid = uuid;
    let writer = Writer::new(std::io::BufWriter::new(fs::File::create(&path).unwrap()), options);
    let fields = ["a", "b", "c"];
    let spec = fields.iter().fold(SchemaSpec::new("row"), |spec, name| spec.field(name, Ty::Uint(64)));
    let id = writer.schema(&spec).unwrap();
    let mut stream = writer.stream(1).unwrap();
    let mut state = nth + 1;
    for n in 0..n_bytes / 40 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let values = [state, state ^ n, n];
        stream
            .row(id, n, 24, |body| {
                for (at, value) in values.iter().enumerate() {
                    body.put(8 * at, &value.to_le_bytes());
                }
            })
            .unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    path
}

/// Sends all sources at once. Returns bytes per microsecond until the last was acknowledged.
fn run(folder: &Path, sources: &[PathBuf], with_tls: bool) -> f64 {
    let out = folder.join("out");
    let token_path = folder.join("token");
    let (mut door, mut tls, mut proof) = (Door::Loopback, None, Proof::None);
    if with_tls {
        let token = identity::new_token(&token_path).unwrap();
        let key = identity::key_path(&token_path);
        let own = Identity::read(&key).unwrap();
        door = Door::Token(Guard::new(&token).unwrap(), identity::server(&own, &[]).unwrap());
        tls = Some(identity::client(token.fingerprint, None).unwrap());
        proof = Proof::Token(token.secret);
        fs::remove_file(key).unwrap();
        fs::remove_file(&token_path).unwrap();
    }
    let collector = Collector::new("127.0.0.1:0".parse().unwrap(), &out, door, Limits::default()).unwrap();
    let addresses = vec![collector.address().unwrap()];
    let target = Target { addresses, tls, proof, give_up: None, silence: SILENCE };
    let is_over = AtomicBool::new(false);
    let seconds = std::thread::scope(|scope| {
        let serving = scope
            .spawn(|| collector.serve(&mut |_, _| is_over.load(Ordering::Relaxed), &mut |_| {}).unwrap());
        let begun = Instant::now();
        let senders: Vec<_> = sources
            .iter()
            .map(|path| {
                let input = Input::Path(path.clone(), true);
                let target = &target;
                scope.spawn(move || {
                    send(target, input, &|| false, &mut |_| {}).map_err(|(failure, _)| failure)
                })
            })
            .collect();
        for sender in senders {
            assert!(sender.join().unwrap().unwrap().is_whole());
        }
        let seconds = begun.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(serving.join().unwrap().n_ended(), sources.len());
        seconds
    });
    fs::remove_dir_all(&out).unwrap();
    let n_bytes: u64 = sources.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    n_bytes as f64 / seconds / 1e6
}
