//! `quipu collect`: streams from other machines, a file for each producer.

use quipu::model::number::{counted, grouped};
use quipu::model::{Error, ErrorKind};
use quipu_console::number;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session;
use quipu_network::collect::{Collector, Door, Limits, Notice, Summary};
use quipu_network::identity::{self, Guard, Identity, Token};
use quipu_view::bytes_text;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most refusals to report individually; further ones are only counted.
const MAX_REFUSALS: u32 = 20;

/// Receive the streams that `quipu send` sends from other machines
///
/// Each producer gets a file of its own in the folder, `PRODUCER.quipu`, which every verb can read, even while it grows; the
/// folder can be read as one trace. A frame is acknowledged once it is on disk. A sender that reconnects, after the network
/// or either side failed, continues where it stopped: no frame is lost or stored twice.
///
/// With a token, connections are encrypted and only senders that have the token are accepted; senders recognise the collector
/// by its certificate, whose fingerprint is in the token. Without a token, the collector listens on this machine only.
///
/// The collector runs until it is interrupted, or until as many producers have ended as --producers says.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Address and port to listen on; port 0 lets the system choose one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7480", value_parser = address)]
    listen: SocketAddr,
    /// Output folder
    #[arg(
        id = "output",
        short = 'o',
        long = "output",
        value_name = "FOLDER",
        required_unless_present = "new_token",
        help_heading = "Writing"
    )]
    folder: Option<PathBuf>,
    /// Create key, certificate and token: FILE for collector and senders, FILE.key for the collector alone
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "token", "listen"], help_heading = "Access control")]
    new_token: Option<PathBuf>,
    /// Accept senders that have this token; its key is in FILE.key
    #[arg(long, value_name = "FILE", help_heading = "Access control")]
    token: Option<PathBuf>,
    /// Accept senders that have the key of this certificate, instead of those that have the token; may be repeated
    #[arg(long, value_name = "FILE", requires = "token", help_heading = "Access control")]
    accept: Vec<PathBuf>,
    /// Exit when this many producers have ended and their senders have disconnected
    #[arg(long, value_name = "N", value_parser = number::positive, help_heading = "Limits")]
    producers: Option<u64>,
    /// Maximum number of simultaneous senders
    #[arg(long, value_name = "N", value_parser = number::positive, default_value = "256", help_heading = "Limits")]
    max_connections: u64,
    /// Maximum size of a frame; readers of streams allow 64 MiB
    #[arg(long, value_name = "BYTES", value_parser = number::positive, help_heading = "Limits")]
    max_frame: Option<u64>,
    /// Maximum size of a producer's file
    #[arg(long, value_name = "BYTES", value_parser = number::positive, help_heading = "Limits")]
    max_size: Option<u64>,
    /// Maximum bytes per second from each connection
    #[arg(long, value_name = "BYTES", value_parser = number::positive, help_heading = "Limits")]
    max_rate: Option<u64>,
    /// Print a summary as JSON at the end
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  quipu collect --new-token collector.token
  quipu collect --listen 0.0.0.0:7480 --token collector.token -o traces
  quipu send --to collector.example.org:7480 --token collector.token run.quipu
  quipu view --follow traces/0123456789abcdef.quipu

Exit codes:
  0  done: all producers have ended, and none has lost records
  1  done, and a producer has not ended, has lost records or lacks some
  2  could not do it";

fn of_io(error: io::Error) -> Stop {
    Error::new(ErrorKind::Io, error.to_string()).into()
}

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    if let Some(path) = &options.new_token {
        return new_token(path, options.json, screen);
    }
    let folder = options.folder.clone().unwrap_or_default();
    let door = door(options)?;
    let default = Limits::default();
    let limits = Limits {
        connections: usize::try_from(options.max_connections).unwrap_or(usize::MAX),
        frame_bytes: options.max_frame.map_or(default.frame_bytes, |bytes| {
            u32::try_from(bytes).unwrap_or(u32::MAX).min(default.frame_bytes)
        }),
        file_bytes: options.max_size.unwrap_or(u64::MAX),
        rate: options.max_rate,
        ..default
    };
    let collector = Collector::new(options.listen, &folder, door, limits).map_err(|error| {
        Error::new(
            ErrorKind::Io,
            format!("cannot collect at {} into {}: {error}", options.listen, folder.display()),
        )
    })?;
    screen.say(format_args!("listening at {}", collector.address().map_err(of_io)?));
    let mut n_refused = 0;
    let mut begun: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut notice = |notice: Notice| match notice {
        // A sender that is refused tries again and again.
        Notice::Began(path, bytes) if begun.insert(path.clone(), bytes) == Some(bytes) => {}
        Notice::Began(path, 0) => screen.say(format_args!("{}: began", path.display())),
        Notice::Began(path, bytes) => {
            screen.say(format_args!("{}: continued after {}", path.display(), bytes_text(bytes)));
        }
        Notice::Ended(path, totals) => screen.say(format_args!(
            "{}: ended, {} in {}",
            path.display(),
            counted(totals.records, "record"),
            bytes_text(totals.bytes)
        )),
        Notice::Cut(path, bytes) => screen.say(format_args!(
            "{}: {} at the end, from offset {} on, were no whole frame, and were cut off",
            path.display(),
            counted(bytes.end - bytes.start, "byte"),
            grouped(bytes.start)
        )),
        Notice::Refused(peer, fault) => {
            n_refused += 1;
            let peer = peer.map_or_else(|| "a connection".to_owned(), |peer| peer.to_string());
            if n_refused <= MAX_REFUSALS {
                screen.say(format_args!("{peer}: refused: {fault}"));
            }
            if n_refused == MAX_REFUSALS {
                screen.say(format_args!("further refusals are only counted"));
            }
        }
    };
    let summary = session::watched(screen, |watch| {
        let mut is_over = |summary: &Summary, n_senders: usize| {
            let has_enough =
                options.producers.is_some_and(|n| summary.n_ended() as u64 >= n && n_senders == 0);
            has_enough || watch.is_cancelled()
        };
        collector.serve(&mut is_over, &mut notice)
    });
    tell(&summary.map_err(of_io)?, options.json, screen)
}

/// Who may connect.
fn door(options: &Options) -> Result<Door> {
    let Some(token) = &options.token else {
        return match options.listen.ip() {
            ip if is_loopback(ip) => Ok(Door::Loopback),
            ip => Err(Error::usage(format!(
                "without a token only this machine is listened to, and {ip} is not it"
            ))
            .hint("`quipu collect --new-token FILE` makes a token; `--token FILE` lets in who has it")
            .into()),
        };
    };
    let identity = Identity::read(&identity::key_path(token)).map_err(of_io)?;
    let known = Token::read(token).map_err(of_io)?;
    if known.fingerprint != identity.fingerprint() {
        return Err(Error::usage(format!("{} is not the token of the key beside it", token.display())).into());
    }
    let accepted = options.accept.iter().map(|path| identity::read_certificate(path));
    let accepted = accepted.collect::<io::Result<Vec<_>>>().map_err(of_io)?;
    let config = identity::server(&identity, &accepted).map_err(of_io)?;
    if accepted.is_empty() {
        Ok(Door::Token(Guard::new(&known).map_err(of_io)?, config))
    } else {
        Ok(Door::Certificates(config))
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn new_token(path: &Path, json: bool, screen: &Screen) -> Result<Outcome> {
    let token = identity::new_token(path).map_err(of_io)?;
    let key = identity::key_path(path);
    if json {
        screen.json(&json!({
            "token": path.display().to_string(),
            "key": key.display().to_string(),
            "fingerprint": token.fingerprint.to_string(),
        }))?;
    } else {
        screen.text(&format!(
            "{}: for the collector and its senders; who has it may send\n{}: for the collector alone\nfingerprint: {}\n",
            path.display(),
            key.display(),
            token.fingerprint
        ))?;
    }
    Ok(Outcome::Fine)
}

/// Reports what was collected.
fn tell(summary: &Summary, json: bool, screen: &Screen) -> Result<Outcome> {
    if json {
        let files: Vec<_> = summary
            .files
            .iter()
            .map(|(path, totals)| {
                json!({
                    "file": path.display().to_string(),
                    "frames": totals.frames,
                    "records": totals.records,
                    "lost": totals.lost,
                    "gaps": totals.gaps,
                    "missing_records": totals.missing,
                    "bytes": totals.bytes,
                    "ended": totals.is_ended,
                })
            })
            .collect();
        screen.json(&json!({ "files": files, "senders": summary.senders, "refused": summary.refused }))?;
    } else {
        let mut text = String::new();
        for (path, totals) in &summary.files {
            text.push_str(&format!(
                "{}: {}, {}, {}{}{}{}\n",
                path.display(),
                counted(totals.records, "record"),
                bytes_text(totals.bytes),
                if totals.is_ended { "ended" } else { "not ended" },
                if totals.lost > 0 { format!(", {} lost", grouped(totals.lost)) } else { String::new() },
                match totals.gaps {
                    0 => String::new(),
                    n => format!(", frames are missing in {}", counted(n, "place")),
                },
                match totals.missing {
                    0 => String::new(),
                    n => format!(", {} that its end counts did not arrive", counted(n, "record")),
                },
            ));
        }
        text.push_str(&format!(
            "{}, {}, {} refused\n",
            counted(summary.files.len() as u64, "file"),
            counted(summary.senders, "sender"),
            counted(summary.refused, "connection"),
        ));
        screen.text(&text)?;
    }
    let is_fine = summary
        .files
        .values()
        .all(|totals| totals.is_ended && totals.lost == 0 && totals.gaps == 0 && totals.missing == 0);
    Ok(if is_fine { Outcome::Fine } else { Outcome::Flawed })
}

/// Parses an address with a port.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let wrong = |why: &dyn std::fmt::Display| {
        format!(
            "expected an address and a port such as 127.0.0.1:7480 or 0.0.0.0:7480, found `{text}`: {why}"
        )
    };
    let mut all = text.to_socket_addrs().map_err(|error| wrong(&error))?;
    all.next().ok_or_else(|| wrong(&"it has no address"))
}

/// Parses a duration such as `30s` or `5m`; without a unit, in seconds.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("expected a time such as 500ms, 30s, 5m or 1h, found `{text}`")),
    };
    let number =
        number.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * seconds).ok());
    number.ok_or_else(|| format!("expected a time such as 500ms, 30s, 5m or 1h, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert!(["", "s", "3d", "-1s", "1e99h", "1.2.3s"].iter().all(|text| duration(text).is_err()));
    }
}
