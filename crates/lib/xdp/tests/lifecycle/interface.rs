//! Interfaces that go down or away.

use super::*;

/// Calls until an error comes, and asserts that it does.
pub(crate) fn until_error(mut call: impl FnMut() -> Result<(), LinkError>) -> LinkError {
    let end = Instant::now() + BOUND;
    loop {
        let result = call();
        assert!(Instant::now() < end, "no error within {BOUND:?}");
        if let Err(error) = result {
            return error;
        }
    }
}

pub(crate) fn going_down_is_reported() {
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let fabric = testing::fabric("down", |_| ());
        let mut link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        let to_b = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
        ip(&fabric, "link set eth0 down");
        let mut frames = Vec::new();
        let error = until_error(|| link.poll(&mut frames, 1).map(drop));
        assert!(matches!(&error, LinkError::Down(name) if name == "eth0"), "{error}");
        let error = until_error(|| link.wait(None).map(drop));
        assert!(matches!(error, LinkError::Down(_)), "{error}");
        let posted = gigae_link::conformance::post(&mut link, &frame(&to_b, CHANNEL, 1, 100));
        link.release(posted.into());
        let error = until_error(|| link.flush().map(drop));
        assert!(matches!(error, LinkError::Down(_)), "{error}");

        ip(&fabric, "link set eth0 up");
        fabric.await_links().unwrap();
        let mut peer = common::link(&fabric, 2, &options(), mode);
        // What was posted in the meantime goes now, or the driver has dropped it.
        link.flush().unwrap();
        gigae_link::conformance::drain(&mut peer);
        let ours = frame(&to_b, CHANNEL, 2, 100);
        gigae_link::conformance::send_until_received(&mut link, &mut peer, &ours);
    }
}

pub(crate) fn deletion_is_reported() {
    for (mode, timeout) in [(Mode::XdpGeneric, None), (Mode::XdpNative, Some(3 * BOUND))] {
        let fabric = testing::fabric("gone", |_| ());
        let mut link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        let to_b = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
        std::thread::scope(|scope| {
            // It sleeps when the interface is deleted.
            let sleeper = scope.spawn(|| until_error(|| link.wait(timeout).map(drop)));
            std::thread::sleep(Duration::from_millis(20));
            drop(fabric);
            let error = sleeper.join().unwrap();
            assert!(matches!(error, LinkError::Gone(_)), "{error}");
        });
        let mut frames = Vec::new();
        let error = until_error(|| link.poll(&mut frames, 1).map(drop));
        assert!(matches!(error, LinkError::Gone(_)), "{error}");
        let posted = gigae_link::conformance::post(&mut link, &frame(&to_b, CHANNEL, 1, 100));
        link.release(posted.into());
        let error = until_error(|| link.flush().map(drop));
        assert!(matches!(error, LinkError::Gone(_)), "{error}");
        let _ = link.counters();
    }
}
