//! `quipu send`: a stream to a collector on another machine, while it is written.

use super::collect::duration;
use quipu::model::number::counted;
use quipu::model::{Error, ErrorKind};
use quipu_console::number;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session;
use quipu_network::SYNC;
use quipu_network::identity::{self, Fingerprint, Identity, Token};
use quipu_network::message::Proof;
use quipu_network::send::{Failure, Input, Notice, SILENCE, Sent, Target, send};
use quipu_network::since;
use quipu_network::spool::Spool;
use quipu_view::bytes_text;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after which a connection counts as stable, and is no longer expected to break for the same reason as the last one.
const SURELY_CONNECTED: Duration = Duration::from_secs(1);

/// Send a stream to `quipu collect` while it is being written
///
/// A file, or a folder of files (a flight recorder), is followed until all its producers have ended. A pipe is read without
/// waiting for the network; unsent data waits in a folder, the spool. If the spool is full, frames with records are dropped,
/// but never metadata; the number of dropped records is written into the stream.
///
/// If the connection breaks or the collector is unreachable, `send` retries; data that has arrived is not sent again, not
/// even by another run. `send` exits when all data is on the collector's disk.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// A stream, a folder of streams, or - for standard input
    #[arg(value_name = "STREAM", default_value = "-")]
    path: PathBuf,
    /// Address of the collector
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "new_certificate")]
    to: Option<String>,
    /// Send the existing data and do not wait for more
    #[arg(long)]
    no_follow: bool,
    /// Send only what was recorded in this time before the end, with all metadata: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<Duration>,
    /// Exit if nothing could be sent for this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    give_up: Option<Duration>,
    /// The token of the collector
    #[arg(long, value_name = "FILE", help_heading = "Access control")]
    token: Option<PathBuf>,
    /// Present this certificate instead of a token; its key is in FILE.key
    #[arg(
        long,
        value_name = "FILE",
        requires = "fingerprint",
        conflicts_with = "token",
        help_heading = "Access control"
    )]
    certificate: Option<PathBuf>,
    /// Fingerprint of the collector's certificate
    // Its text may begin with a hyphen.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        requires = "certificate",
        help_heading = "Access control"
    )]
    fingerprint: Option<String>,
    /// Create key and certificate: FILE for the collector (--accept), FILE.key for the sender alone
    #[arg(long, value_name = "FILE", conflicts_with = "to", help_heading = "Access control")]
    new_certificate: Option<PathBuf>,
    /// Spool folder for data from a pipe; by default a temporary folder, which is removed after all of it was sent
    #[arg(long, value_name = "FOLDER", help_heading = "Spool")]
    spool: Option<PathBuf>,
    /// Maximum size of the spool
    #[arg(long, value_name = "BYTES", value_parser = number::positive, default_value = "1Gi", help_heading = "Spool")]
    spool_size: u64,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  quipu send --to collector.example.org:7480 --token collector.token run.quipu
  ./tracer | quipu send --to collector.example.org:7480 --token collector.token --spool spool -
  quipu send --to collector.example.org:7480 --token collector.token --since 30s recorder.dir
  quipu send --to 127.0.0.1:7480 --no-follow run.quipu

Exit codes:
  0  done: all of it is on the collector's disk
  1  done, and not all of it could be sent, or the run was interrupted
  2  could not do it";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    if let Some(path) = &options.new_certificate {
        return new_certificate(path, options.json, screen);
    }
    let target = target(options)?;
    let (mut input, mut temporary) = input(options)?;
    let mut left_open = 0;
    if let (Some(back), Input::Path(path, _)) = (options.since, &input) {
        let folder = temporary_folder()?;
        let cut = since::cut(path, back, &folder.join("since.quipu"));
        left_open = cut
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot cut {}: {error}", path.display())))?;
        input = Input::Cut(folder.clone(), path.clone());
        temporary = Some(folder);
    }
    let spool = match &input {
        Input::Pipe(_, spool) => Some(spool.folder().to_owned()),
        Input::Path(..) | Input::Cut(..) => None,
    };
    let sent = session::watched(screen, |watch| {
        let (mut records, mut frames) = (0, 0);
        let mut said = String::new();
        // A new connection may break immediately for the same reason, so it is reported once it has proved stable.
        let mut again: Option<(SocketAddr, Instant)> = None;
        send(&target, input, &|| watch.is_cancelled(), &mut |notice| match notice {
            Notice::Connected(address) if said.is_empty() => {
                screen.say(format_args!("connected to {address}"));
            }
            Notice::Connected(address) => again = Some((address, Instant::now())),
            Notice::Lost(address, why) => {
                again = None;
                if said != why {
                    screen.say(format_args!("{address}: {why}; trying again"));
                    why.clone_into(&mut said);
                }
            }
            Notice::Progress(sent) => {
                let is_good = |since: &Instant| sent.frames > frames || since.elapsed() > SURELY_CONNECTED;
                if let Some((address, _)) = again.take_if(|(_, since)| is_good(since)) {
                    screen.say(format_args!("connected to {address}"));
                    said.clear();
                }
                frames = sent.frames;
                watch.advance(sent.records - records, 0);
                records = sent.records;
            }
        })
    });
    let is_complete = sent.as_ref().is_ok_and(|sent| sent.is_complete);
    let has_files = |spool: &PathBuf| fs::read_dir(spool).is_ok_and(|mut files| files.next().is_some());
    let left = spool.filter(|spool| !is_complete && has_files(spool));
    if let Some(folder) = temporary.filter(|_| left.is_none()) {
        let _ = fs::remove_dir_all(folder);
    }
    if let Some(spool) = &left {
        let what = format!("`quipu send --no-follow … {}` sends it", spool.display());
        screen.say_error(format_args!("what was not sent is in {}; {what}", spool.display()));
    }
    match sent {
        // If it was interrupted before reading the stream, nothing is known about it.
        Ok(sent) if !sent.has_frames && sent.is_complete && !sent.is_cut => {
            Err(no_stream(&options.path).into())
        }
        Ok(sent) => tell(options, &Sent { left_open: sent.left_open + left_open, ..sent }, screen),
        Err((failure, sent)) => {
            say_dropped(&sent, screen);
            if sent.frames > 0 {
                screen.say(format_args!(
                    "{} of {} had arrived",
                    counted(sent.frames, "frame"),
                    options.path.display()
                ));
            }
            let error = Error::new(ErrorKind::Io, failure.to_string());
            Err(match failure {
                Failure::Distrust(_) => error
                    .hint("both sides need the same `--token FILE`, or the sender `--certificate` and `--fingerprint` and the collector `--accept`; `quipu collect --new-token` makes another certificate where one has expired")
                    .into(),
                Failure::Refused(_) | Failure::Unreachable(_) | Failure::Source(_) => error.into(),
            })
        }
    }
}

fn of_io(error: io::Error) -> Stop {
    Error::new(ErrorKind::Io, error.to_string()).into()
}

/// The collector's address and credentials.
fn target(options: &Options) -> Result<Target> {
    let to = options.to.clone().unwrap_or_default();
    let addresses = to.to_socket_addrs().map(Iterator::collect::<Vec<SocketAddr>>);
    let addresses = addresses
        .map_err(|error| Error::usage(format!("--to is HOST:PORT of a collector, found `{to}`: {error}")))?;
    if addresses.is_empty() {
        return Err(Error::usage(format!("`{to}` has no address")).into());
    }
    let (tls, proof) = match (&options.token, &options.certificate) {
        (Some(path), _) => {
            let token = Token::read(path).map_err(of_io)?;
            (Some(identity::client(token.fingerprint, None).map_err(of_io)?), Proof::Token(token.secret))
        }
        (None, Some(path)) => {
            let text = options.fingerprint.as_deref().unwrap_or_default();
            let fingerprint = Fingerprint::parse(text)
                .ok_or_else(|| Error::usage(format!("--fingerprint has 43 letters, found `{text}`")))?;
            let own = Identity::read(&identity::key_path(path)).map_err(of_io)?;
            (Some(identity::client(fingerprint, Some(&own)).map_err(of_io)?), Proof::None)
        }
        (None, None) => {
            if let Some(far) = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback()) {
                let what = format!("without a token nothing is sent to another machine, and {far} is one");
                return Err(Error::usage(what).hint("`quipu collect --new-token FILE` makes a token").into());
            }
            (None, Proof::None)
        }
    };
    Ok(Target { addresses, tls, proof, give_up: options.give_up, silence: SILENCE })
}

/// The input, and a folder to remove afterwards.
fn input(options: &Options) -> Result<(Input, Option<PathBuf>)> {
    let path = &options.path;
    let is_stdin = path == Path::new("-");
    let is_pipe = is_stdin || fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    if !is_pipe {
        let is_other = begins_otherwise(path)
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot read {}: {error}", path.display())))?;
        if is_other {
            return Err(no_stream(path).into());
        }
        return Ok((Input::Path(path.clone(), !options.no_follow), None));
    }
    if options.since.is_some() {
        return Err(Error::usage(
            "--since is for files and flight recorders: what comes through a pipe has no end yet",
        )
        .into());
    }
    let file =
        if is_stdin { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
    let (folder, temporary) = match &options.spool {
        Some(folder) => (folder.clone(), None),
        None => {
            let folder = temporary_folder()?;
            (folder.clone(), Some(folder))
        }
    };
    let spool = Spool::new(&folder, options.spool_size).map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot write to {}: {error}", folder.display()))
    })?;
    Ok((Input::Pipe(file.map_err(of_io)?, Box::new(spool)), temporary))
}

/// Whether a file is something other than a stream. An empty or preallocated file may become a stream, and one that was
/// joined in the middle contains a frame soon.
fn begins_otherwise(path: &Path) -> io::Result<bool> {
    if fs::metadata(path)?.is_dir() {
        return Ok(false);
    }
    const PROBED_BYTES: u64 = 64 << 10;
    let mut first = Vec::new();
    File::open(path)?.take(PROBED_BYTES).read_to_end(&mut first)?;
    let has_frame = first.windows(SYNC.len()).any(|bytes| bytes == SYNC);
    Ok(!has_frame && !SYNC.starts_with(&first) && first.iter().any(|byte| *byte != 0))
}

fn no_stream(path: &Path) -> Error {
    Error::usage(format!("{} is no stream", path.display()))
        .hint("`quipu convert TRACE -o NAME.quipu` makes a stream of a trace")
}

/// A temporary folder of this run, accessible only to this user.
fn temporary_folder() -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let mut nth = 0;
    loop {
        let folder = std::env::temp_dir().join(format!("quipu-send-{}-{nth}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            // Left by another process with the same id, whose spool was kept.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && nth < 1000 => nth += 1,
            Err(error) => {
                let what = format!("cannot make {}: {error}", folder.display());
                return Err(Error::new(ErrorKind::Io, what).into());
            }
        }
    }
}

fn new_certificate(path: &Path, json: bool, screen: &Screen) -> Result<Outcome> {
    let fingerprint = identity::new_certificate(path).map_err(of_io)?;
    let key = identity::key_path(path);
    if json {
        screen.json(&json!({
            "certificate": path.display().to_string(),
            "key": key.display().to_string(),
            "fingerprint": fingerprint.to_string(),
        }))?;
    } else {
        screen.text(&format!(
            "{}: for the collector, which takes it with --accept\n{}: for the sender alone\n",
            path.display(),
            key.display()
        ))?;
    }
    Ok(Outcome::Fine)
}

/// Reports frames dropped because the spool was full.
fn say_dropped(sent: &Sent, screen: &Screen) {
    if sent.dropped.1 > 0 {
        screen.say_error(format_args!(
            "{} were dropped, because the spool was full",
            counted(sent.dropped.0, "record")
        ));
    }
}

/// Reports what was sent.
fn tell(options: &Options, sent: &Sent, screen: &Screen) -> Result<Outcome> {
    let name = options.path.display().to_string();
    say_dropped(sent, screen);
    if sent.unsent > 0 {
        let frames = counted(sent.unsent, "frame");
        screen.say_error(format_args!("{frames} could not be sent, because they are damaged or too large"));
    }
    if sent.other_bytes > 0 {
        let bytes = counted(sent.other_bytes, "byte");
        screen.say_error(format_args!("{bytes} could not be sent, because they are no whole frames"));
    }
    if sent.left_open > 0 {
        let buffers = counted(sent.left_open, "buffer");
        if sent.is_left_alone {
            screen.say_error(format_args!(
                "{buffers} of a program that is gone were not sent; the same command with --no-follow sends them"
            ));
        } else {
            let alone = if options.since.is_some() { " without --since" } else { "" };
            screen.say_error(format_args!(
                "{buffers} that the program may still be writing were not sent; the same command{alone} sends them when it has ended"
            ));
        }
    }
    if !sent.is_complete {
        screen.say_error(format_args!("interrupted: not all was sent"));
    } else if sent.is_cut {
        screen.say_error(format_args!(
            "interrupted: what the stream had by then was sent, and it had not ended"
        ));
    }
    if options.json {
        screen.json(&json!({
            "stream": name,
            "frames": sent.frames,
            "records": sent.records,
            "bytes": sent.bytes,
            "already_there": sent.already,
            "reconnects": sent.reconnects,
            "dropped_records": sent.dropped.0,
            "dropped_frames": sent.dropped.1,
            "unsent_frames": sent.unsent,
            "other_bytes": sent.other_bytes,
            "open_buffers": sent.left_open,
            "complete": sent.is_complete && !sent.is_cut,
        }))?;
    } else if !screen.is_quiet() {
        let already = match sent.already {
            0 => String::new(),
            n => format!("; {} were there before", counted(n, "frame")),
        };
        screen.text(&format!(
            "{name}: {} in {}, {}{already}\n",
            counted(sent.records, "record"),
            counted(sent.frames, "frame"),
            bytes_text(sent.bytes)
        ))?;
    }
    Ok(if sent.is_whole() { Outcome::Fine } else { Outcome::Flawed })
}
