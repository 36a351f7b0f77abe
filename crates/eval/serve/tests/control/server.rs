//! A server on loopback, and what a client needs to speak to it byte by byte.

use gigae_eval_measure::shared_port::SharedPort;
use gigae_eval_measure::site::Site;
use gigae_eval_measure::transport::Task;
use gigae_eval_model::plan::{Condition, Experiment, Setting, Wait};
use gigae_eval_serve::{self as serve, Presence, ServeConfig, Service};
use gigae_eval_session::control::{self, ControlError, Key, Limits, Reply, Request, Session};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const SECRET: &[u8] = b"0123456789abcdef";

/// A bound against hanging only: nothing is concluded from how long it really takes.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A server on loopback that ends with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with("127.0.0.1:0", ServeConfig::default())
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        Self::with("127.0.0.1:0", ServeConfig { limits, ..ServeConfig::default() })
    }

    pub(crate) fn with(listen: &str, config: ServeConfig) -> Self {
        Self::at(TcpListener::bind(listen).unwrap(), None, config, false)
    }

    pub(crate) fn at(
        listener: TcpListener,
        metrics: Option<TcpListener>,
        config: ServeConfig,
        shared_port: bool,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut site = Site::find("lo").unwrap();
            site.shared_port = shared_port.then(|| Arc::new(SharedPort::new(address.port())));
            let service = Service {
                listener: &listener,
                key: &key(),
                site: &site,
                presence: Presence::none(),
                config,
                metrics: metrics.as_ref(),
            };
            serve::serve(service, &flag, &mut |_| {}).unwrap();
        });
        Self { address, stop, thread: Some(thread) }
    }

    pub(crate) fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(SOON * 2)).unwrap();
        stream
    }

    /// An honest client, as soon as it is its turn.
    pub(crate) fn client(&self) -> Session {
        connect(self.address, &key()).unwrap()
    }

    /// Whether an honest client is served; also waits until the server is done with the one before.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.client().ask(&Request::Describe, SOON), Ok(Reply::Description(_)))
    }
}

pub(crate) fn connect(to: SocketAddr, key: &Key) -> Result<Session, ControlError> {
    control::connect(&to.to_string(), key, &mut |_| true)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in the server has already failed the test by its silence.
            let _ = thread.join();
        }
    }
}

pub(crate) fn key() -> Key {
    Key::from_bytes(SECRET).unwrap()
}

pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

/// Reads one length-prefixed message.
pub(crate) fn message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}

/// Bytes until the server closes.
pub(crate) fn rest(stream: &mut TcpStream) -> usize {
    let mut all = Vec::new();
    // A reset is as good as a close.
    let _ = stream.read_to_end(&mut all);
    all.len()
}

/// A connection from an address of the loopback network, which says nothing.
pub(crate) fn silent(from: &str, to: SocketAddr) -> TcpStream {
    let from: SocketAddr = from.parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(from)).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(SOON * 2)).unwrap();
    socket.into()
}

pub(crate) fn task(transport: &str, rate: Option<f64>, measure: f64) -> Task {
    Task {
        experiment: Experiment::Stream,
        transport: transport.into(),
        setting: Setting::Default,
        condition: Condition::default(),
        wait: Wait::Sleep,
        size: 1400,
        warmup: 0.0,
        measure,
        rate,
    }
}

pub(crate) fn run(session: &mut Session, task: Task, port: u16) -> Reply {
    let address = Site::find("lo").unwrap().address(port);
    session.ask(&Request::Run { task, address }, SOON).unwrap()
}

/// Round trips while one stream runs beside them.
pub(crate) fn beside_a_stream(rate: Option<f64>) -> Task {
    let condition = Condition { bulk: 1, ..Condition::default() };
    Task { experiment: Experiment::Rtt, condition, ..task("udp", rate, 20.0) }
}
