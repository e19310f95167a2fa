//! The network trial: three senders and a collector, killed and disconnected at random.
//!
//! A proxy between them knows what was acknowledged, because it reads all messages. When the collector is killed, its files
//! are cut at the end of the last frame acknowledged to the sender, as a power failure would do at worst. `./dev trial
//! network` runs a longer version.

use super::{Collecting, path, quipu, text};
use quipu_network::message::{From, Parser, Part, kind};
use quipu_network::store::file_name;
use quipu_stream::codec::Codec;
use quipu_stream::frame::Header;
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::write::{Options, Writer};
use quipu_testkit::Rng;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Identifies a frame: producer, stream, number.
type Id = (u64, u32, u64);

/// State of the proxy.
#[derive(Default)]
struct Known {
    acked: BTreeSet<Id>,
    /// Sockets of connections that may be cut.
    open: Vec<TcpStream>,
    /// Number of frames that passed, including repeated ones.
    n_frames: u64,
}

/// The proxy to which senders connect.
struct Proxy {
    address: SocketAddr,
    known: Arc<Mutex<Known>>,
    /// Current address of the collector.
    target: Arc<Mutex<Option<SocketAddr>>>,
}

fn number(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().unwrap())
}

impl Proxy {
    fn new() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let known = Arc::new(Mutex::new(Known::default()));
        let target = Arc::new(Mutex::new(None));
        let proxy = Proxy { address, known: Arc::clone(&known), target: Arc::clone(&target) };
        std::thread::spawn(move || {
            for sender in listener.incoming() {
                let sender = sender.unwrap();
                let Some(to) = *target.lock().unwrap() else { continue };
                let Ok(collector) = TcpStream::connect(to) else { continue };
                pass(sender, collector, &known);
            }
        });
        proxy
    }

    fn cut(&self) {
        for socket in self.known.lock().unwrap().open.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Forwards bytes in both directions, and decodes them.
fn pass(sender: TcpStream, collector: TcpStream, known: &Arc<Mutex<Known>>) {
    known.lock().unwrap().open.extend([sender.try_clone().unwrap(), collector.try_clone().unwrap()]);
    let sent: Arc<Mutex<Vec<Id>>> = Arc::default();
    let (up_known, up_sent) = (Arc::clone(known), Arc::clone(&sent));
    let (from, to) = (sender.try_clone().unwrap(), collector.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut head = Vec::new();
        relay(from, to, From::Sender, |part| match part {
            Part::Frame(_) => head.clear(),
            Part::Bytes(bytes) if head.len() < 96 => {
                head.extend_from_slice(&bytes[..bytes.len().min(96 - head.len())]);
                if head.len() == 96 {
                    let header = Header::read(&head).unwrap();
                    up_sent.lock().unwrap().push((header.producer, header.stream, header.seq));
                    up_known.lock().unwrap().n_frames += 1;
                }
            }
            _ => {}
        });
    });
    let known = Arc::clone(known);
    std::thread::spawn(move || {
        relay(collector, sender, From::Collector, |part| {
            if let Part::Message(kind::ACK | kind::BYE, body) = part {
                let n = number(body) as usize;
                known.lock().unwrap().acked.extend(&sent.lock().unwrap()[..n]);
            }
        });
    });
}

fn relay(mut from: TcpStream, mut to: TcpStream, side: From, mut look: impl FnMut(Part<'_>)) {
    let (mut parser, mut buffer) = (Parser::new(side), vec![0; 32 << 10]);
    while let Ok(n) = from.read(&mut buffer)
        && n > 0
    {
        let mut input = &buffer[..n];
        while let Some(part) = parser.next(&mut input).unwrap() {
            look(part);
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A stream of one producer: records of two streams in small frames.
pub(super) fn stream(producer: u64, n_records: u64) -> Vec<u8> {
    let mut options = Options { codec: Codec::None, frame_bytes: 3000, ..Options::new("trial") };
    let mut uuid = [5; 16];
    uuid[..8].copy_from_slice(&producer.to_le_bytes());
    options.producer.uuid = uuid;
    let writer = Writer::new(Vec::new(), options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut streams = [writer.stream(1).unwrap(), writer.stream(2).unwrap()];
    for n in 0..n_records {
        let stream = &mut streams[usize::from(n % 3 == 0)];
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    streams.into_iter().for_each(|stream| stream.finish().unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn frames(mut bytes: &[u8]) -> Vec<FrameAt> {
    let (mut scanner, mut all) = (Scanner::new(), Vec::new());
    while let Some(frame) = scanner.next(&mut bytes).unwrap() {
        all.push(frame);
    }
    all
}

fn id(frame: &FrameAt) -> Id {
    (frame.header.producer, frame.header.stream, frame.header.seq)
}

/// Cuts a producer's file as a power failure may: at the end of the last acknowledged frame, or somewhere after it.
fn cut_file(file: &Path, producer: u64, known: &Known, rng: &mut Rng) {
    let Ok(bytes) = fs::read(file) else { return };
    let all = frames(&bytes);
    let there: BTreeSet<Id> = all.iter().map(id).collect();
    let acked: BTreeSet<Id> = known.acked.iter().filter(|id| id.0 == producer).copied().collect();
    let lost: Vec<_> = acked.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and not in {}: {lost:?}", file.display());
    let end = all.iter().filter(|frame| acked.contains(&id(frame))).map(FrameAt::end).max().unwrap_or(0);
    let more = match rng.below(3) {
        0 => 0,
        _ => rng.below(bytes.len() as u64 - end + 1),
    };
    OpenOptions::new().write(true).open(file).unwrap().set_len(end + more).unwrap();
}

fn sender(to: SocketAddr, input: &Path, more: &[&str], stdin: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["send", "-q", "--json", "--to", &to.to_string()])
        .args(more)
        .arg(input)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs three senders, two that follow files and one that reads a pipe, with this many failures.
fn trial(n_cuts: u64, n_records: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let proxy = Proxy::new();
    let streams: Vec<Vec<u8>> = (1..4).map(|producer| stream(producer, n_records)).collect();
    let files: Vec<_> = (0..3).map(|nth| folder.path().join(format!("{nth}.quipu"))).collect();
    for file in &files[..2] {
        File::create(file).unwrap();
    }
    let start = |proxy: &Proxy| {
        let collecting = Collecting::start(&["-o", path(&out)]);
        *proxy.target.lock().unwrap() = Some(collecting.address);
        collecting
    };
    let mut collecting = start(&proxy);
    let spool = folder.path().join("spool");
    let mut senders: Vec<Child> =
        files[..2].iter().map(|file| sender(proxy.address, file, &[], Stdio::null())).collect();
    let pipe = sender(proxy.address, Path::new("-"), &["--spool", path(&spool)], Stdio::piped());
    senders.push(pipe);
    let mut stdin = senders[2].stdin.take().unwrap();
    let mut at = [0; 3];
    let mut grow = |part: u64, of: u64| {
        for (nth, stream) in streams.iter().enumerate() {
            let end = (stream.len() as u64 * part / of) as usize;
            let bytes = &stream[at[nth]..end];
            at[nth] = end;
            match nth {
                2 => stdin.write_all(bytes).unwrap(),
                _ => OpenOptions::new().append(true).open(&files[nth]).unwrap().write_all(bytes).unwrap(),
            }
        }
    };
    // The programs keep writing.
    const STEPS: u64 = 8;
    for nth in 0..n_cuts {
        for step in 0..STEPS {
            grow(nth * STEPS + step, n_cuts * STEPS);
            std::thread::sleep(Duration::from_millis(rng.below(30)));
        }
        match rng.below(4) {
            0 | 1 => {
                *proxy.target.lock().unwrap() = None;
                collecting.child.kill().unwrap();
                collecting.child.wait().unwrap();
                proxy.cut();
                // Frames in transit may still be acknowledged.
                std::thread::sleep(Duration::from_millis(50));
                for producer in 1..4 {
                    let known = proxy.known.lock().unwrap();
                    cut_file(&out.join(file_name(producer)), producer, &known, &mut rng);
                }
                collecting = start(&proxy);
            }
            2 => {
                let nth = rng.below(2) as usize;
                senders[nth].kill().unwrap();
                senders[nth].wait().unwrap();
                senders[nth] = sender(proxy.address, &files[nth], &[], Stdio::null());
            }
            _ => proxy.cut(),
        }
    }
    grow(1, 1);
    drop(stdin);
    let begun = Instant::now();
    for (nth, mut child) in senders.into_iter().enumerate() {
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "sender {nth} does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "sender {nth}: {}", text(&output.stderr));
    }
    drop(collecting);
    let mut total = 0;
    for (nth, stream) in streams.iter().enumerate() {
        let file = out.join(file_name(nth as u64 + 1));
        let got: Vec<Id> = frames(&fs::read(&file).unwrap()).iter().map(id).collect();
        let wanted: Vec<Id> = frames(stream).iter().map(id).collect();
        total += wanted.len();
        let (mut got_sorted, mut wanted_sorted) = (got.clone(), wanted);
        got_sorted.sort_unstable();
        wanted_sorted.sort_unstable();
        assert_eq!(got_sorted, wanted_sorted, "each frame of producer {} is there once", nth + 1);
        let checked = quipu(&["check", path(&file)]);
        assert_eq!(checked.status.code(), Some(0), "{}{}", text(&checked.stdout), text(&checked.stderr));
        let original = folder.path().join("original.quipu");
        fs::write(&original, stream).unwrap();
        let print = |file: &Path| quipu(&["view", path(file)]).stdout;
        assert!(print(&file) == print(&original), "the records of producer {}", nth + 1);
    }
    let n_passed = proxy.known.lock().unwrap().n_frames;
    println!(
        "{n_cuts} cuts: {total} frames, each there once; {n_passed} were sent, in {:?}",
        begun.elapsed()
    );
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_there_twice() {
    trial(8, 30_000, 1);
}

#[test]
#[ignore = "the long form: ./dev trial network"]
fn network_trial() {
    let n_cuts = std::env::var("QUIPU_TRIAL_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(50);
    let seed = std::env::var("QUIPU_TRIAL_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(7);
    trial(n_cuts, 400_000, seed);
}
