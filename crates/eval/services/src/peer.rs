//! A file server of another machine's, over the control connection.

use crate::error::ServiceError;
use crate::service::Service;
use crate::serving::{ServerAddress, ServingEnd};
use crate::store::{FileStore, StoredFile};
use gigae_eval_model::file_job::FileJob;
use gigae_eval_session::control::{
    ANSWER, ControlError, FilesReply, FilesRequest, Key, Reply, Request, Session, Spent,
};
use gigae_eval_session::programs::ProgramError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a client that waits for an answer looks whether its run was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// Time for the rest of an answer whose beginning is there.
const REST: Duration = Duration::from_secs(4);

/// Of what the other machine says about itself, this many characters are shown.
const SHOWN: usize = 200;

/// A server that another machine has started for this one. It ends with this value.
pub struct PeerServer<'a> {
    session: &'a mut Session,
    interrupted: &'a AtomicBool,
    at: ServerAddress,
    about: (String, Option<String>),
    /// Whether each request has its answer, so that another one can follow.
    in_step: bool,
}

impl Drop for PeerServer<'_> {
    fn drop(&mut self) {
        // Without a connection it has ended there, too.
        if self.in_step {
            let _ = self.session.ask(&Request::Cancel, ANSWER);
        }
    }
}

impl<'a> PeerServer<'a> {
    /// Has the other machine make these files and start a server. Its files must be the same as
    /// those here.
    pub fn start(
        session: &'a mut Session,
        service: &'static dyn Service,
        store: &FileStore,
        files: &[StoredFile],
        sent: Option<u64>,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, ServiceError> {
        let name = service.spec().name;
        let directory = store.directory_of(name)?;
        let sizes = files.iter().map(|file| (file.size, file.files)).collect();
        let job = FileJob { service: name.to_owned(), files: sizes, sent };
        let request = FilesRequest::Serve(Box::new(job));
        let FilesReply::Serving(serving) = ask(session, request, interrupted)? else {
            return Err(unexpected());
        };
        let serving = *serving;
        let (ip, mac, port, password) = (serving.ip, serving.mac, serving.port, serving.password);
        let at = ServerAddress { service, ip, mac, port, password, directory };
        let about = (plain(&serving.version), serving.file_system.as_deref().map(plain));
        let server = Self { session, interrupted, at, about, in_step: true };
        // It becomes a word of a client's command.
        if Key::from_hex(&server.at.password).is_err() {
            return Err(ControlError::Garbled("a password that is no key").into());
        }
        let ours: Vec<String> = files.iter().map(StoredFile::hash).collect();
        match ours == serving.hashes {
            true => Ok(server),
            false => {
                let (service, name) = (service.spec().title, "the server's files".to_owned());
                Err(ServiceError::Wrong { service, name })
            }
        }
    }

    fn ask(&mut self, request: FilesRequest) -> Result<FilesReply, ServiceError> {
        let reply = ask(self.session, request, self.interrupted);
        self.in_step &= !matches!(&reply, Err(error) if error.is_interruption() || error.is_lost());
        reply
    }
}

/// Large files take the other machine minutes. A machine that is gone is an error of the session.
fn ask(
    session: &mut Session,
    request: FilesRequest,
    interrupted: &AtomicBool,
) -> Result<FilesReply, ServiceError> {
    session.send(&Request::Files(request))?;
    while !session.readable(LOOK)? {
        if interrupted.load(Ordering::Relaxed) {
            return Err(ProgramError::Interrupted.into());
        }
    }
    match session.receive(REST)? {
        Reply::Files(reply) => Ok(reply),
        Reply::Failed { reason, .. } => Err(ServiceError::Unavailable(reason)),
        Reply::Over { reason } => Err(ControlError::Over(reason).into()),
        _ => Err(unexpected()),
    }
}

/// Without what would write elsewhere on a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

fn unexpected() -> ServiceError {
    ControlError::Garbled("an answer to another question").into()
}

impl ServingEnd for PeerServer<'_> {
    fn at(&self) -> &ServerAddress {
        &self.at
    }

    fn about(&self) -> (String, Option<String>) {
        self.about.clone()
    }

    /// What the other machine says when a repetition begins.
    fn alive(&mut self) -> Result<(), ServiceError> {
        self.begin()
    }

    fn slow_disk(&mut self, _bytes_per_second: f64) -> Result<(), ServiceError> {
        let why = "disks are slowed down on virtual networks only; leave out --peer for this";
        Err(ServiceError::Unavailable(why.into()))
    }

    fn begin(&mut self) -> Result<(), ServiceError> {
        match self.ask(FilesRequest::Begin)? {
            FilesReply::Begun => Ok(()),
            _ => Err(unexpected()),
        }
    }

    fn end(&mut self) -> Result<Spent, ServiceError> {
        match self.ask(FilesRequest::End)? {
            FilesReply::Spent(spent) => Ok(*spent),
            _ => Err(unexpected()),
        }
    }

    fn is_same(&mut self, sent: &str, file: &StoredFile) -> Result<bool, ServiceError> {
        let (sent, file) = (sent.to_owned(), file.name.clone());
        match self.ask(FilesRequest::Compare { sent, file })? {
            FilesReply::Compared(same) => Ok(same),
            _ => Err(unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lftp::Lftp;
    use gigae_eval_session::control::{self, FilesServing};
    use std::net::{Ipv4Addr, TcpListener};

    /// What a client makes of a server that says this.
    fn start(password: &str, version: &str) -> Result<(String, String), ServiceError> {
        let key = Key::random().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap().to_string();
        let serving = FilesServing {
            ip: Ipv4Addr::LOCALHOST,
            mac: [0; 6],
            port: 1,
            password: password.to_owned(),
            version: version.to_owned(),
            file_system: None,
            hashes: Vec::new(),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().unwrap();
                let mut session = control::accept(stream, &key).unwrap();
                session.send(&Reply::Welcome(control::Limits::default())).unwrap();
                let request: Request = session.receive(ANSWER).unwrap();
                assert!(matches!(request, Request::Files(FilesRequest::Serve(_))));
                session.send(&Reply::Files(FilesReply::Serving(Box::new(serving)))).unwrap();
                assert_eq!(session.receive::<Request>(ANSWER).unwrap(), Request::Cancel);
                session.send(&Reply::Cancelled).unwrap();
            });
            let mut session = control::connect(&peer, &key, &mut |_| true).unwrap();
            let (store, interrupted) = (FileStore::new(0).unwrap(), AtomicBool::new(false));
            let server = PeerServer::start(&mut session, &Lftp, &store, &[], None, &interrupted)?;
            Ok((server.at().password.clone(), server.about().0))
        })
    }

    /// A client's command has the password: lftp runs what comes after a semicolon.
    #[test]
    fn a_password_of_another_machine_is_a_key_or_it_is_refused() {
        let key = Key::random().unwrap().to_hex();
        assert_eq!(start(&key, "v\u{1b}[2J1").unwrap(), (key.clone(), "v[2J1".to_owned()));
        let ends = ["", " ", "; !touch x", "x ftp://198.18.0.9; ", "\n"];
        for wrong in ends.iter().map(|end| format!("{key}{end}")).skip(1).chain([String::new()]) {
            let error = start(&wrong, "1").unwrap_err().to_string();
            assert!(error.contains("no key") && !error.contains('\n'), "{error}");
        }
    }
}
