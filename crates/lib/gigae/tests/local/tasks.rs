//! What other processes of the tests do.

use super::*;

/// A process of this test with its own task.
pub(crate) struct Task {
    pub(crate) child: Child,
    /// Ends when this does.
    stdin: Option<ChildStdin>,
    said: BufReader<std::process::ChildStdout>,
}

impl Task {
    pub(crate) fn start(node: &Node, task: &[&str], user: Option<u32>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some(user) = user {
            command.uid(user);
        }
        Self::spawn(node, task, command)
    }

    /// The same in its own PID namespace, in which it does not see this process.
    pub(crate) fn start_unseeing(node: &Node, task: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).arg(std::env::current_exe().unwrap());
        Self::spawn(node, task, command)
    }

    fn spawn(node: &Node, task: &[&str], mut command: Command) -> Self {
        let _inside = node.enter().unwrap();
        command.env("GIGAE_LOCAL_TASK", task.join(" "));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, said) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, said }
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().into()
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits until the processes have ended that it forked, and that read its standard input. As
    /// long as they live they hold its address, and another endpoint with it has no neighbours.
    pub(crate) fn end_of_children(&mut self) {
        drop(self.stdin.take());
        std::io::copy(&mut self.said, &mut std::io::sink()).unwrap();
    }

    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether nothing wakes a program that sleeps on the endpoint's descriptor.
pub(crate) fn may_sleep(end: &Endpoint) -> bool {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ready = end.prepare_to_wait().unwrap() == Some(Duration::ZERO);
    let mut fds = [PollFd::from_borrowed_fd(end.fd().unwrap(), PollFlags::IN)];
    !ready && rustix::event::poll(&mut fds, Some(&none)).unwrap() == 0
}

/// What a process does that was started for it.
pub(crate) fn carry_out(task: &str) {
    let mut words = task.split(' ');
    let (what, mut word) = (words.next().unwrap(), || words.next().unwrap());
    let say = |line: &str| println!("{line}");
    let read_line = || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        line.trim().to_owned()
    };
    match what {
        // Answers every message with itself until it is killed.
        "echo" => {
            let end = options(word(), Backend::Xdp).open().unwrap();
            say(&end.link().mac.to_string());
            loop {
                let message = end.recv().unwrap();
                let from = end.address(message.from());
                end.send(end.peer(from).unwrap(), &message).unwrap();
            }
        }
        // Has no descriptor left when a neighbour connects, and answers as one that echoes when it
        // has.
        "full" => {
            let end = options(word(), Backend::Xdp).open().unwrap();
            let mut limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            limits.current = Some(200);
            rustix::process::setrlimit(rustix::process::Resource::Nofile, limits).unwrap();
            let null = || std::fs::File::open("/dev/null");
            let all: Vec<_> = std::iter::from_fn(|| null().ok()).collect();
            say(&end.link().mac.to_string());
            drop(end.recv_timeout(PATIENCE).unwrap().expect("a message"));
            // What is said after it is over soon.
            let deadline = Instant::now() + PATIENCE;
            while !may_sleep(&end) {
                assert!(Instant::now() < deadline, "it is woken again and again");
                end.recv_timeout(Duration::from_millis(5)).unwrap();
            }
            say("asleep");
            read_line();
            drop(all);
            say("again");
            loop {
                let message = end.recv().unwrap();
                end.send(message.from(), &message).unwrap();
            }
        }
        // Receives long messages and sends them back, and says how many it has read in the sender's
        // memory, and how many were read in its own.
        "long" => {
            let end = options_for_long(word()).open().unwrap();
            say(&end.identity().address.to_string());
            loop {
                end.start_recv(Wanted::ANY, vec![0; LONGEST]).unwrap();
                let done = end.completion().unwrap().expect("a message");
                done.result.unwrap();
                let (from, len) = (done.peer.unwrap(), done.len);
                let mut memory = done.memory.and_then(gigae::Memory::into_vec).unwrap();
                memory.truncate(len);
                end.start_send(from, done.tag, memory).unwrap();
                end.completion().unwrap().expect("it is sent").result.unwrap();
                let counted = end.counters().operations;
                say(&format!("{} {}", counted.fetched, counted.lent));
            }
        }
        // Has a registered memory. Does what each line says.
        "own" => {
            let end = options_for_long(word()).open().unwrap();
            let bits: u8 = word().parse().unwrap();
            let all = [(1, Rights::READ), (2, Rights::WRITE), (4, Rights::ATOMIC)];
            let given = all.iter().filter(|(bit, _)| bits & bit != 0);
            let rights = given.fold(Rights::NONE, |rights, &(_, right)| rights.with(right));
            own_memory(&end, rights, read_line);
        }
        // The same where no shared memory can be made.
        "none" => own_other_memory(&options_for_long(word()).open().unwrap(), read_line),
        // Writes into the memory of another.
        "write" => {
            let end = options_for_long(word()).open().unwrap();
            write_for_ever(&end, word().parse().unwrap());
        }
        // Holds the name of an address and connects to another.
        "claim" => {
            let _name = gigae_shm::bind("gigae", word().parse().unwrap()).unwrap();
            say("claimed");
            let name = format!("gigae/{}", word());
            let socket = rustix::net::socket(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::SEQPACKET,
                None,
            )
            .unwrap();
            read_line();
            let to = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
            rustix::net::connect(&socket, &to).unwrap();
            let ended = rustix::net::recv(&socket, &mut [0; 8], rustix::net::RecvFlags::empty());
            assert!(matches!(ended, Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET)));
            say("refused");
            read_line();
        }
        // Meets one after another, and says when nothing is left of the one who is gone.
        "count" => {
            let end = options(word(), Backend::Xdp).open().unwrap();
            let before = held();
            while let Ok(at) = read_line().parse::<Address>() {
                greet(&end, at);
                (0..50).for_each(|n| echo(&end, at, n));
                assert_eq!(held().1, before.1 + 2, "one each way");
                say("met");
                read_line();
                let deadline = Instant::now() + PATIENCE;
                while held() != before {
                    assert!(Instant::now() < deadline, "{:?}, {before:?} before", held());
                    end.recv_timeout(Duration::from_millis(5)).unwrap();
                }
                say("nothing is left");
            }
        }
        // One of many who all talk to all.
        "crowd" => {
            let (name, count) = (word().to_owned(), word().parse().unwrap());
            let options = options(&name, Backend::Auto).wait(Wait::Adaptive);
            let end = options.peer_timeout(Duration::from_secs(60)).open().unwrap();
            say(&end.link().mac.to_string());
            let others: Vec<String> = read_line().split(' ').map(Into::into).collect();
            all_to_all(&end, &others, count);
            say("done");
            // The others may still want an acknowledgement.
            let waiting = std::thread::spawn(hear_end);
            while !waiting.is_finished() {
                end.recv_timeout(Duration::from_millis(5)).unwrap();
            }
        }
        other => panic!("no task '{other}'"),
    }
}

/// On an interface of a pair, or on the fabric's over UDP sockets.
pub(crate) fn options_for_long(interface: &str) -> Options {
    let options = match interface {
        "eth0" => options(interface, Backend::Udp)
            .envelope(Envelope::Udp { port: 4791 })
            .sharing(gigae::Sharing::Auto),
        _ => options(interface, Backend::Packet),
    };
    options.peer_timeout(NEVER_LOST)
}

/// Longest message of a process that receives long ones.
pub(crate) const LONGEST: usize = 20_000_000;

/// No deadline wakes who sleeps with something left to read.
pub(crate) const NEVER_LOST: Duration = Duration::from_secs(3600);

pub(crate) fn hear_end() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

pub(crate) fn all_to_all(end: &Endpoint, others: &[String], count: u32) {
    let max = end.max_message();
    let peers: Vec<_> =
        others.iter().map(|other| end.peer(other.parse::<Address>().unwrap()).unwrap()).collect();
    let (mut sent, mut got) = (vec![0; peers.len()], vec![0; peers.len()]);
    let deadline = Instant::now() + 3 * PATIENCE;
    while sent.iter().chain(&got).any(|&n| n < count) {
        for (peer, sent) in peers.iter().zip(&mut sent) {
            while *sent < count && end.try_send(*peer, &body(*sent, max)).is_ok() {
                *sent += 1;
            }
        }
        let idle = sent.iter().all(|&n| n == count);
        let patience = Duration::from_millis(if idle { 100 } else { 0 });
        while let Some(message) = end.recv_timeout(patience).unwrap() {
            let from = peers.iter().position(|&peer| peer == message.from()).unwrap();
            assert_eq!(message[..], body(got[from], max), "message {} of {from}", got[from]);
            got[from] += 1;
            if got.iter().all(|&n| n == count) {
                break;
            }
        }
        assert!(Instant::now() < deadline, "{sent:?} sent, {got:?} received");
    }
    end.drain(PATIENCE).unwrap();
}

pub(crate) fn echo(end: &Endpoint, to: Address, n: u32) {
    let peer = end.peer(to).unwrap();
    end.send(peer, &n.to_be_bytes()).unwrap();
    let answer = end.recv_timeout(PATIENCE).unwrap().expect("an answer");
    assert_eq!((answer.from(), &answer[..]), (peer, &n.to_be_bytes()[..]));
}

/// Sends to an endpoint whose predecessor was killed, which the first message finds out.
pub(crate) fn greet(end: &Endpoint, to: Address) {
    let peer = end.peer(to).unwrap();
    end.send(peer, b"who is there?").unwrap();
    match end.recv_timeout(PATIENCE) {
        Ok(answer) => assert_eq!(&answer.expect("an answer")[..], b"who is there?"),
        Err(RecvError::Failed) => {
            let failed = end.take_failure().expect("a failure");
            assert_eq!((failed.to(), failed.reason()), (peer, Reason::Reset));
            drop(failed);
            greet(end, to);
        }
        Err(error) => panic!("{error}"),
    }
}

/// Descriptors of this process, and mappings of neighbours' memory.
pub(crate) fn held() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (descriptors, maps.lines().filter(|line| line.contains("gigae-shm")).count())
}
