//! Tests of admission, and of trust between senders and collectors.

use crate::loopback::{Running, plain, send_file};
use crate::made;
use quipu_network::certificate::{self, Validity};
use quipu_network::collect::{Door, Limits};
use quipu_network::identity::{self, Fingerprint, Guard, Identity, Token};
use quipu_network::message::Proof;
use quipu_network::send::{Failure, Target};
use quipu_network::store::file_name;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// A collector with its own token.
fn guarded(folder: &Path, name: &str) -> (Running, Token) {
    let path = folder.join(name);
    let token = identity::new_token(&path).unwrap();
    let own = Identity::read(&identity::key_path(&path)).unwrap();
    let door = Door::Token(Guard::new(&token).unwrap(), identity::server(&own, &[]).unwrap());
    (Running::new(&folder.join(format!("{name}.out")), door, Limits::default()), token)
}

fn with_token(running: &Running, token: &Token) -> Target {
    let tls = Some(identity::client(token.fingerprint, None).unwrap());
    Target { tls, proof: Proof::Token(token.secret), ..plain(running.address) }
}

#[test]
fn who_has_the_token_is_let_in_and_no_other_sender() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    let stream = made::stream(5, 3000, 9000);
    fs::write(&path, &stream).unwrap();
    let (running, token) = guarded(folder.path(), "token");
    assert_eq!(Token::read(&folder.path().join("token")).unwrap(), token);
    assert_eq!(Token::parse(&token.to_text()), Some(token.clone()));
    let sent = send_file(&with_token(&running, &token), &path).unwrap();
    assert!(sent.is_whole() && sent.records == 6000, "{sent:?}");
    let refused = |target: Target| send_file(&target, &path).unwrap_err();
    // Wrong secret: the collector refuses.
    let mut other = token.clone();
    other.secret[31] ^= 1;
    let failure = refused(with_token(&running, &other));
    assert!(matches!(&failure, Failure::Refused(fault) if fault.text.contains("token")), "{failure}");
    // No secret.
    let mut target = with_token(&running, &token);
    target.proof = Proof::None;
    assert!(matches!(refused(target), Failure::Refused(_)));
    // Wrong fingerprint: the sender does not reveal its secret.
    let mut other = token.clone();
    other.fingerprint.0[0] ^= 1;
    assert!(matches!(refused(with_token(&running, &other)), Failure::Distrust(_)));
    // No TLS.
    let failure = refused(Target { proof: Proof::Token(token.secret), ..plain(running.address) });
    assert!(matches!(failure, Failure::Refused(_) | Failure::Distrust(_)), "{failure}");
    let (summary, _) = running.stop();
    assert_eq!((summary.senders, summary.files.len()), (1, 1));
    let file = fs::read(folder.path().join("token.out").join(file_name(5))).unwrap();
    assert_eq!(made::read(&file), made::read(&stream));
}

#[test]
fn a_collector_without_tls_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    fs::write(&path, made::stream(5, 30, 900)).unwrap();
    let token = identity::new_token(&folder.path().join("token")).unwrap();
    let running = Running::new(&folder.path().join("out"), Door::Loopback, Limits::default());
    let failure = send_file(&with_token(&running, &token), &path).unwrap_err();
    assert!(matches!(failure, Failure::Distrust(_)), "{failure}");
    running.stop();
}

#[test]
fn bytes_after_the_end_of_tls_keep_no_collector_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    fs::write(&path, made::stream(5, 30, 900)).unwrap();
    let (running, token) = guarded(folder.path(), "token");
    let config = identity::client(token.fingerprint, None).unwrap();
    let name = ServerName::IpAddress(running.address.ip().into());
    let mut tls = ClientConnection::new(config, name).unwrap();
    let mut socket = TcpStream::connect(running.address).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut socket).unwrap();
    }
    tls.send_close_notify();
    let mut last = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut last).unwrap();
    }
    last.extend_from_slice(&[7; 100_000]);
    socket.write_all(&last).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let sent = send_file(&with_token(&running, &token), &path).unwrap();
    assert!(sent.is_whole(), "{sent:?}");
    running.stop();
}

/// Writes a key with a certificate of this validity, and the certificate alone.
fn certified(folder: &Path, name: &str, validity: Validity) -> Identity {
    let path = folder.join(name);
    let made = certificate::make(name, validity).unwrap();
    identity::write_key(&path, &made).unwrap();
    Identity::read(&identity::key_path(&path)).unwrap()
}

#[test]
fn certificates_that_have_expired_or_are_not_valid_yet_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    fs::write(&path, made::stream(5, 30, 900)).unwrap();
    let always = Validity::ten_years();
    let now = always.from + 86_400;
    for (name, validity, is_valid) in [
        ("expired", Validity { from: now - 100_000, until: now - 10 }, false),
        ("early", Validity { from: now + 10_000, until: now + 100_000 }, false),
        ("valid", always, true),
    ] {
        let own = certified(folder.path(), name, validity);
        let token = Token { fingerprint: own.fingerprint(), secret: [3; 32] };
        let door = Door::Token(Guard::new(&token).unwrap(), identity::server(&own, &[]).unwrap());
        let running = Running::new(&folder.path().join(format!("{name}.out")), door, Limits::default());
        let sent = send_file(&with_token(&running, &token), &path);
        match sent {
            Ok(_) => assert!(is_valid, "{name}"),
            Err(failure) => {
                assert!(!is_valid && matches!(failure, Failure::Distrust(_)), "{name}: {failure}")
            }
        }
        running.stop();
    }
}

#[test]
fn senders_may_show_certificates_instead_of_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    fs::write(&path, made::stream(5, 300, 900)).unwrap();
    let always = Validity::ten_years();
    let own = certified(folder.path(), "collector", always);
    let known_path = folder.path().join("known");
    identity::new_certificate(&known_path).unwrap();
    let known = Identity::read(&identity::key_path(&known_path)).unwrap();
    let expired = certified(folder.path(), "expired", Validity { from: 1, until: always.from });
    let strange = certified(folder.path(), "strange", always);
    let expired_certificate = identity::read_certificate(&identity::key_path(&folder.path().join("expired")));
    let accepted = [identity::read_certificate(&known_path).unwrap(), expired_certificate.unwrap()];
    let door = Door::Certificates(identity::server(&own, &accepted).unwrap());
    let running = Running::new(&folder.path().join("out"), door, Limits::default());
    let target = |identity: Option<&Identity>| Target {
        tls: Some(identity::client(own.fingerprint(), identity).unwrap()),
        ..plain(running.address)
    };
    for (who, identity) in [("strange", Some(&strange)), ("expired", Some(&expired)), ("without one", None)] {
        let failure = send_file(&target(identity), &path).unwrap_err();
        assert!(matches!(failure, Failure::Distrust(_)), "{who}: {failure}");
    }
    let sent = send_file(&target(Some(&known)), &path).unwrap();
    assert!(sent.is_whole(), "{sent:?}");
    let (summary, _) = running.stop();
    assert_eq!((summary.senders, summary.n_ended()), (1, 1));
}

#[test]
fn secrets_are_for_their_owner_and_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    identity::new_token(&path).unwrap();
    for file in [path.clone(), identity::key_path(&path)] {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    let before = fs::read(&path).unwrap();
    assert!(identity::new_token(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
    fs::remove_file(&path).unwrap();
    // The key file of another token exists: no token is created without its key.
    assert!(identity::new_token(&path).is_err() && !path.exists());
    assert_eq!(Token::parse("quipu-token-1:a:b"), None);
    assert_eq!(Fingerprint::parse("short"), None);
}
