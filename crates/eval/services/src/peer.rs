//! A file server of another machine's, over the control connection.

use crate::error::ServiceError;
use crate::service::Service;
use crate::serving::{ServerAddress, ServingEnd};
use crate::store::{FileStore, StoredFile};
use gigae_eval_model::file_job::FileJob;
use gigae_eval_session::control::{
    ANSWER, ControlError, FilesReply, FilesRequest, Reply, Request, Session, Spent,
};

/// A server that another machine has started for this one. It ends with this value.
pub struct PeerServer<'a> {
    session: &'a mut Session,
    at: ServerAddress,
    about: (String, Option<String>),
    /// Whether the other machine still has it.
    serves: bool,
}

impl Drop for PeerServer<'_> {
    fn drop(&mut self) {
        // Without a connection it has ended there, too.
        if self.serves {
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
    ) -> Result<Self, ServiceError> {
        let name = service.spec().name;
        let sizes = files.iter().map(|file| (file.size, file.files)).collect();
        let job = FileJob { service: name.to_owned(), files: sizes, sent };
        let FilesReply::Serving(serving) = ask(session, FilesRequest::Serve(Box::new(job)))? else {
            return Err(unexpected());
        };
        let serving = *serving;
        let directory = store.directory_of(name)?;
        let (ip, mac, port, password) = (serving.ip, serving.mac, serving.port, serving.password);
        let at = ServerAddress { service, ip, mac, port, password, directory };
        let about = (serving.version, serving.file_system);
        let server = Self { session, at, about, serves: true };
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
        ask(self.session, request)
    }
}

fn ask(session: &mut Session, request: FilesRequest) -> Result<FilesReply, ServiceError> {
    match session.ask(&Request::Files(request), ANSWER)? {
        Reply::Files(reply) => Ok(reply),
        Reply::Failed { reason, .. } => Err(ServiceError::Unavailable(reason)),
        Reply::Over { reason } => Err(ControlError::Over(reason).into()),
        _ => Err(unexpected()),
    }
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
