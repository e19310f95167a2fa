//! A connection: a non-blocking socket, with or without TLS.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Size of the buffer for reading from sockets, which all connections share.
pub const READ_BYTES: usize = 256 << 10;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More may be available at once.
    More,
    /// Nothing more is available now.
    Nothing,
    /// The other side has closed the connection.
    Closed,
}

/// A connection.
pub struct Link {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    /// Output without TLS.
    out: Vec<u8>,
    /// Number of bytes of `out` that were sent.
    sent: usize,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link {
    fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Link> {
        socket.set_nonblocking(true)?;
        // Acknowledgements and greetings are small, and the other side waits for them.
        socket.set_nodelay(true)?;
        let tls = tls.map(|mut tls| {
            tls.set_buffer_limit(None);
            Box::new(tls)
        });
        Ok(Link { socket, tls, out: Vec::new(), sent: 0 })
    }

    /// The collector's side of an accepted connection.
    ///
    /// # Errors
    /// If the socket cannot be set up.
    pub fn accepted(socket: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Link> {
        let tls = tls.map(|config| ServerConnection::new(Arc::clone(config)).map(Connection::from));
        Link::new(socket, tls.transpose().map_err(io::Error::other)?)
    }

    /// Begins to connect, as a sender. The connection is established once the socket is writable and [`Link::established`]
    /// succeeds.
    ///
    /// # Errors
    /// If the collector cannot be reached.
    pub fn connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> io::Result<Link> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let name = ServerName::IpAddress(address.ip().into());
        let tls = tls.map(|config| ClientConnection::new(Arc::clone(config), name).map(Connection::from));
        Link::new(socket.into(), tls.transpose().map_err(io::Error::other)?)
    }

    /// Checks whether connecting succeeded, once the socket is writable.
    ///
    /// # Errors
    /// If connecting failed.
    pub fn established(&self) -> io::Result<()> {
        self.socket.take_error()?.map_or(Ok(()), Err)
    }

    /// The address of the other side.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// Reads available input, up to the size of `scratch`, and passes it to `take`.
    ///
    /// # Errors
    /// If the connection broke, the other side violates TLS, or `take` fails.
    pub fn read(
        &mut self,
        scratch: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Progress> {
        let n = match self.socket.read(scratch) {
            Ok(0) => return Ok(Progress::Closed),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Progress::More),
            Err(error) => return Err(error),
        };
        let more = if n == scratch.len() { Progress::More } else { Progress::Nothing };
        let Some(tls) = &mut self.tls else {
            take(&scratch[..n])?;
            return Ok(more);
        };
        let mut packed = &scratch[..n];
        let mut has_ended = false;
        while !packed.is_empty() {
            // TLS accepts no input after its end.
            if tls.read_tls(&mut packed)? == 0 {
                break;
            }
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // Sends an alert if the other side still listens.
                    let _ = tls.write_tls(&mut self.socket);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            };
            has_ended |= state.peer_has_closed();
            if state.plaintext_bytes_to_read() == 0 {
                continue;
            }
            let mut plain = tls.reader();
            loop {
                let n = match plain.fill_buf() {
                    Ok([]) => break,
                    Ok(bytes) => {
                        take(bytes)?;
                        bytes.len()
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
                plain.consume(n);
            }
        }
        Ok(if has_ended { Progress::Closed } else { more })
    }

    /// Appends bytes to the output.
    ///
    /// # Errors
    /// If TLS refuses them.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes),
            None => {
                self.out.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Sends as much output as the socket accepts.
    ///
    /// # Errors
    /// If the connection broke.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.wants_write() {
            let written = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut self.socket),
                None => self.socket.write(&self.out[self.sent..]),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) if self.tls.is_none() => {
                    self.sent += n;
                    if self.sent == self.out.len() {
                        self.out.clear();
                        self.sent = 0;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether there is unsent output.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match &self.tls {
            Some(tls) => tls.wants_write(),
            None => self.sent < self.out.len(),
        }
    }

    /// Whether the TLS handshake is complete; true without TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Announces the end of the output.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
    }
}
