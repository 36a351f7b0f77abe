//! The terminal: taken for the view, drawn on, and put back as it was, on every way out.
//!
//! The view is on standard error, as the progress bar is, so that standard output may go to a file.
//! Keys come from standard input, or where that is not a terminal from the one that controls the
//! process (`/dev/tty`).

use super::keys::{KeyPress, keys};
use gigae_eval_session::remark;
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::stdio::{stderr, stdin};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr,
    tcgetwinsize, tcsetattr,
};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// The other screen, without a cursor, cleared (xterm's control sequences).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";

/// Plain letters, the cursor, the first screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// There is one terminal. Every way in which the process ends must be able to put it back.
static TAKEN: Mutex<Option<TerminalModes>> = Mutex::new(None);

/// What is needed for that.
struct TerminalModes {
    /// The terminal with its former modes, if keys come from it.
    modes: Option<(OwnedFd, Termios)>,
}

fn taken() -> MutexGuard<'static, Option<TerminalModes>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The terminal cannot be drawn on. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Standard error is none.
    #[error(
        "--tui draws on standard error, which is not a terminal here; start it on one (standard output may go to a file), or leave --tui out"
    )]
    NoTerminal,
    /// It does not understand where to write.
    #[error(
        "--tui cannot draw on a terminal of kind '{0}'; set TERM to what it is, like xterm, or leave --tui out"
    )]
    Dumb(String),
    /// It fails.
    #[error("the terminal cannot be drawn on: {0}; leave --tui out")]
    Io(io::Error),
}

/// Whether a view can be drawn here.
pub fn ready() -> Result<(), ViewError> {
    if !isatty(stderr()) {
        return Err(ViewError::NoTerminal);
    }
    let name = std::env::var("TERM").unwrap_or_default();
    if matches!(&name[..], "" | "dumb") { Err(ViewError::Dumb(name)) } else { Ok(()) }
}

/// Puts the terminal back, if it is taken, and says what was kept. Any thread may, at any time.
pub fn restore() {
    let Some(TerminalModes { modes }) = taken().take() else { return };
    // Nothing is left to do if the terminal is gone.
    let _ = write_all(LEAVE);
    if let Some((terminal, modes)) = modes {
        let _ = tcsetattr(&terminal, OptionalActions::Flush, &modes);
    }
    remark::release();
}

/// All bytes to standard error, past the lock of Rust's: a panic may be on its way there.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::write(stderr(), bytes))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// The terminal while it is taken.
pub(super) struct TakenTerminal {
    /// Where what is drawn goes.
    pub(super) screen: Screen,
    /// Where keys come from, if there is one.
    pub(super) keyboard: Option<Keyboard>,
}

/// Takes the terminal.
pub(super) fn take() -> Result<TakenTerminal, ViewError> {
    ready()?;
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // What a panic says must not be said on a screen that is about to go.
        let said = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            said(panic);
        }));
    });
    let keyboard = Keyboard::open();
    let modes = keyboard.as_ref().and_then(|keyboard| keyboard.quiet().ok());
    remark::hold();
    *taken() = Some(TerminalModes { modes });
    if let Err(error) = write_all(ENTER) {
        restore();
        return Err(ViewError::Io(error));
    }
    let screen = Screen { pending: Vec::new(), coloured: crate::terminal::coloured() };
    Ok(TakenTerminal { screen, keyboard })
}

/// Where keys come from.
pub(super) struct Keyboard {
    terminal: OwnedFd,
    read: Vec<u8>,
}

impl Keyboard {
    fn open() -> Option<Self> {
        let terminal = if isatty(stdin()) {
            rustix::io::fcntl_dupfd_cloexec(stdin(), 0).ok()?
        } else {
            rustix::fs::open(
                "/dev/tty",
                OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY,
                Mode::empty(),
            )
            .ok()?
        };
        Some(Self { terminal, read: Vec::new() })
    }

    /// Has the terminal hand on every key at once and print none of them; gives it with its former
    /// modes. Ctrl-C is a key, too, for the screen must be put back before anything ends.
    fn quiet(&self) -> io::Result<(OwnedFd, Termios)> {
        let before = tcgetattr(&self.terminal)?;
        let mut modes = before.clone();
        modes.local_modes -=
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes -= InputModes::IXON | InputModes::ICRNL;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&self.terminal, OptionalActions::Now, &modes)?;
        Ok((rustix::io::fcntl_dupfd_cloexec(&self.terminal, 0)?, before))
    }

    /// The keys that were pressed; `None` when there will be no more.
    fn pressed(&mut self) -> Option<Vec<KeyPress>> {
        let mut bytes = [0; 64];
        match retry_on_intr(|| rustix::io::read(&self.terminal, &mut bytes[..])) {
            Ok(0) | Err(_) => None,
            Ok(length) => {
                self.read.extend_from_slice(&bytes[..length]);
                Some(keys(&mut self.read))
            }
        }
    }
}

/// Waits for keys, for a word from the other side of `wake`, or for a time. A keyboard that is gone
/// is dropped.
pub(super) fn wait(
    keyboard: &mut Option<Keyboard>,
    wake: BorrowedFd<'_>,
    time: Duration,
) -> Vec<KeyPress> {
    let timeout = rustix::event::Timespec::try_from(time).ok();
    let mut wanted = vec![PollFd::from_borrowed_fd(wake, PollFlags::IN)];
    let terminal = keyboard.as_ref().map(|keyboard| keyboard.terminal.as_fd());
    wanted.extend(terminal.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    // A signal that comes between ends the wait early, which does no harm.
    let _ = poll(&mut wanted, timeout.as_ref());
    if wanted.get(1).is_none_or(|terminal| terminal.revents().is_empty()) {
        return Vec::new();
    }
    let pressed = keyboard.as_mut().and_then(Keyboard::pressed);
    if pressed.is_none() {
        *keyboard = None;
    }
    pressed.unwrap_or_default()
}

/// Writes cells as control sequences, a redraw at a time.
pub(super) struct Screen {
    pending: Vec<u8>,
    coloured: bool,
}

impl Screen {
    /// The sequence for a cell's colours and letters (ECMA-48, 8.3.117).
    fn style(&mut self, CellStyle { fg, bg, modifier }: CellStyle) {
        self.pending.extend(b"\x1b[0");
        for (wanted, number) in [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::REVERSED, 7)] {
            if modifier.contains(wanted) {
                self.write(format_args!(";{number}"));
            }
        }
        for (colour, first) in [(fg, 30), (bg, 40)] {
            if let Some(number) = number(colour) {
                self.write(format_args!(";{}", first + number));
            }
        }
        self.pending.push(b'm');
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        // Memory takes everything.
        let _ = self.pending.write_fmt(text);
    }
}

/// How a cell looks.
#[derive(Clone, Copy, PartialEq)]
struct CellStyle {
    /// Foreground.
    fg: Color,
    /// Background.
    bg: Color,
    /// How the letters are.
    modifier: Modifier,
}

/// Those of a terminal's own colours that are used here.
fn number(colour: Color) -> Option<u8> {
    match colour {
        Color::Red => Some(1),
        Color::Green => Some(2),
        Color::Yellow => Some(3),
        Color::Cyan => Some(6),
        _ => None,
    }
}

impl Backend for Screen {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let (mut at, mut drawn) = (None, None);
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                self.write(format_args!("\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1));
            }
            let style = CellStyle { fg: cell.fg, bg: cell.bg, modifier: cell.modifier };
            if self.coloured && drawn != Some(style) {
                self.style(style);
                drawn = Some(style);
            }
            self.pending.extend(cell.symbol().as_bytes());
            at = Some((x.saturating_add(1), y));
        }
        if drawn.is_some() {
            self.pending.extend(b"\x1b[0m");
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.pending.extend(b"\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.pending.extend(b"\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Nothing here is drawn from where the cursor is.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.write(format_args!("\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.pending.extend(match region {
            ClearType::All => &b"\x1b[2J"[..],
            ClearType::AfterCursor => b"\x1b[J",
            ClearType::BeforeCursor => b"\x1b[1J",
            ClearType::CurrentLine => b"\x1b[2K",
            ClearType::UntilNewLine => b"\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(stderr())?;
        // A serial line does not know its size.
        match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => Ok(Size::new(80, 24)),
            (width, height) => Ok(Size::new(width, height)),
        }
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    /// Everything at once; an error once the terminal has been put back, so that nothing is drawn
    /// after that.
    fn flush(&mut self) -> io::Result<()> {
        let taken = taken();
        if taken.is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let written = write_all(&self.pending);
        self.pending.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(coloured: bool) -> String {
        let mut screen = Screen { pending: Vec::new(), coloured };
        let mut bold = Cell::new("b");
        bold.modifier = Modifier::BOLD;
        bold.fg = Color::Green;
        let plain = Cell::new("p");
        let cells = [(0, 0, &bold), (1, 0, &bold), (2, 0, &plain), (9, 3, &plain)];
        screen.draw(cells.into_iter()).unwrap();
        String::from_utf8(screen.pending).unwrap()
    }

    #[test]
    fn neighbours_need_no_address_and_equal_ones_no_style() {
        assert_eq!(drawn(true), "\x1b[1;1H\x1b[0;1;32mbb\x1b[0mp\x1b[4;10Hp\x1b[0m");
    }

    #[test]
    fn without_colour_nothing_is_said_of_how_letters_look() {
        assert_eq!(drawn(false), "\x1b[1;1Hbbp\x1b[4;10Hp");
    }

    #[test]
    fn nothing_is_drawn_on_a_terminal_that_was_put_back() {
        let mut screen = Screen { pending: b"late".to_vec(), coloured: false };
        assert!(screen.flush().is_err());
    }
}
