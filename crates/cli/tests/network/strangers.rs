//! Connections without permission: the collector's answers to them, and their cost.

use super::{Collecting, path, quipu, text};
use quipu_network::certificate::{self, Validity};
use quipu_network::identity::{self, Fingerprint, Token};
use quipu_network::store::file_name;
use quipu_testkit::fixtures;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Peak memory of a process in KiB.
fn peak_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_bad_connections_cost_little_and_keep_no_sender_out() {
    let folder = tempfile::tempdir().unwrap();
    let (out, token) = (folder.path().join("collected"), folder.path().join("token"));
    assert!(quipu(&["collect", "--new-token", path(&token)]).status.success());
    let collecting = Collecting::start(&["--token", path(&token), "-o", path(&out)]);
    let (address, pid) = (collecting.address, collecting.child.id());
    let before = peak_kib(pid);
    let hello = client_hello();
    let mut open = Vec::new();
    let mut n_sent = 0;
    for nth in 0..1000_usize {
        let Ok(mut socket) = TcpStream::connect(address) else { continue };
        let noise: Vec<u8> = (0..300).map(|n: usize| (n.wrapping_mul(nth + 31) >> 3) as u8).collect();
        // Noise, an HTTP request, nothing at all, half a TLS hello, a whole one and then nothing, a TLS record that claims
        // to be long.
        let _ = match nth % 6 {
            0 => socket.write_all(&noise),
            1 => socket.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            2 => Ok(()),
            3 => socket.write_all(&hello[..hello.len() / 2]),
            4 => socket.write_all(&hello),
            _ => socket.write_all(&[22, 3, 1, 0x40, 0]).and_then(|()| socket.write_all(&noise)),
        };
        // Some hang up; the others stay connected as long as the collector lets them.
        if nth % 4 != 0 {
            open.push(socket);
        }
        if nth % 200 == 150 {
            let stream = folder.path().join(format!("{nth}.quipu"));
            fs::write(&stream, super::trial::stream(nth as u64, 5000)).unwrap();
            let to = address.to_string();
            let sent = quipu(&["send", "--to", &to, "--token", path(&token), path(&stream)]);
            assert_eq!(sent.status.code(), Some(0), "{nth}: {}", text(&sent.stderr));
            assert!(quipu(&["check", path(&out.join(file_name(nth as u64)))]).status.success());
            n_sent += 1;
        }
    }
    let grown = peak_kib(pid) - before;
    println!("1000 bad connections: {grown} KiB more than the {before} KiB before them");
    assert!(grown < 64 << 10, "{grown} KiB more");
    // Single bytes at long intervals are not a greeting: the connection is closed in time.
    let begun = Instant::now();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    for byte in &hello {
        let is_gone = slow.write_all(&[*byte]).is_err() || matches!(slow.read(&mut [0; 64]), Ok(0));
        if is_gone {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(25), "a slow greeting is not ended");
    }
    assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(open);
    let (_, answer) = collecting.stop();
    assert!(answer.contains(&format!("{n_sent} files, {n_sent} senders")), "{answer}");
}

/// The first bytes of a sender with a token.
fn client_hello() -> Vec<u8> {
    let config = identity::client(Fingerprint([0; 32]), None).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut link = quipu_network::link::Link::connect(address, Some(&config)).unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    link.flush().unwrap();
    let mut bytes = vec![0; 4096];
    let n = socket.read(&mut bytes).unwrap();
    bytes.truncate(n);
    bytes
}

/// Makes key, certificate and token of a collector whose certificate is valid in this period.
fn token_of(path: &Path, validity: Validity) -> Token {
    let made = certificate::make("collector", validity).unwrap();
    let token = Token { fingerprint: Fingerprint::of(&made.certificate), secret: [4; 32] };
    identity::write_key(path, &made).unwrap();
    fs::write(path, token.to_text()).unwrap();
    token
}

#[test]
fn who_is_not_trusted_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let stream = fixtures("stream").join("minimal.quipu");
    let always = Validity::ten_years();
    let token = token_of(&at("token"), always);
    let expired = token_of(&at("expired"), Validity { from: 1_000_000_000, until: 1_100_000_000 });
    let early = token_of(&at("early"), Validity { from: always.until - 10, until: always.until });
    let mut secret = token.clone();
    secret.secret[5] ^= 1;
    fs::write(at("secret"), secret.to_text()).unwrap();
    fs::write(at("fingerprint"), Token { fingerprint: expired.fingerprint, ..token.clone() }.to_text())
        .unwrap();
    let refused = |collector: &Collecting, line: &[&str], words: &str| {
        let to = collector.address.to_string();
        let sent = quipu(&[&["send", "--to", &to, path(&stream)], line].concat());
        let said = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(2), "{line:?}: {said}");
        assert!(said.contains(words), "{line:?}: {words}: {said}");
    };
    let out = at("collected");
    let start = |token: &Path, more: &[&str]| {
        Collecting::start(&[&["--token", path(token), "-o", path(&out)], more].concat())
    };
    let collector = start(&at("token"), &[]);
    refused(&collector, &["--token", path(&at("secret"))], "this is not the collector's token");
    refused(&collector, &["--token", path(&at("fingerprint"))], "another certificate than");
    refused(&collector, &[], "wants TLS");
    drop(collector);
    for (name, words) in [("expired", "has expired"), ("early", "is not valid yet")] {
        refused(&start(&at(name), &[]), &["--token", path(&at(name))], words);
    }
    assert_ne!(expired.fingerprint, early.fingerprint);
    // Certificates for senders.
    assert!(quipu(&["send", "--new-certificate", path(&at("known"))]).status.success());
    assert!(quipu(&["send", "--new-certificate", path(&at("strange"))]).status.success());
    let made = certificate::make("old", Validity { from: 1_000_000_000, until: 1_100_000_000 }).unwrap();
    identity::write_key(&at("old"), &made).unwrap();
    let accepted = ["--accept", path(&at("known")), "--accept", path(&at("old.key"))].map(str::to_owned);
    let collector = start(&at("token"), &accepted.each_ref().map(String::as_str));
    let own = token.fingerprint.to_string();
    let shown = |name: &str| {
        vec!["--fingerprint".to_owned(), own.clone(), "--certificate".to_owned(), path(&at(name)).to_owned()]
    };
    let lines = [(shown("strange"), "does not know the sender"), (shown("old"), "has expired")];
    for (line, words) in &lines {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        refused(&collector, &line, words);
    }
    refused(&collector, &["--token", path(&at("token"))], "wants a certificate");
    let line = shown("known");
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let sent = quipu(&[&["send", "--to", &collector.address.to_string(), path(&stream)], &line[..]].concat());
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (_, answer) = collector.stop();
    assert!(answer.contains("1 sender, 3 connections refused"), "{answer}");
}
