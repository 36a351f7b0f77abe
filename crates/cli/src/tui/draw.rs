//! How it looks: lines of text and bars, for every size of screen. Nothing is said by colour alone.

use super::model::{Line, Model, Row};
use gigae_eval_model::duration;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use std::time::Duration;

/// Columns of a figure's name, of its value, and of what more there is on a wide screen.
const NAME: u16 = 11;
const VALUE: u16 = 11;
const MORE: u16 = 35;

/// From this width on a screen is wide.
const WIDE: u16 = NAME + VALUE + MORE + 20;

/// From this height on there is room for lines that only part the rest.
const HIGH: u16 = 20;

/// The first column of the table is at least so wide.
const TITLE: usize = 18;

/// Bars by eighths.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const BAR: Style = Style::new().fg(Color::Cyan);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);

const KEYS: [&str; 6] = [
    "q, Ctrl-C   end the run as Ctrl-C does without a view; again: at once",
    "up, down    scroll the table by a row (also k, j)",
    "PgUp, PgDn  by a page (also space)",
    "Home, End   to its beginning, its end (also g, G)",
    "?           these keys",
    "",
];

/// Draws everything. Takes down how many rows of the table there is room for.
pub(super) fn draw(model: &mut Model, now: Duration, buffer: &mut Buffer) {
    let Rect { width, height, .. } = buffer.area;
    if width == 0 || height == 0 {
        return;
    }
    let mut page = Page { buffer, width, height, y: 0 };
    head(model, now, &mut page);
    let high = height >= HIGH;
    if high {
        page.put(bars(width), page.y, "last minute", width, FAINT);
        page.y += 1;
    }
    // What is said takes the last line but one, keys the last one; figures at most half of what is
    // between.
    let said = u16::from(!model.said.is_empty());
    let foot = height.saturating_sub(1 + said).max(page.y);
    let between = foot.saturating_sub(page.y + u16::from(high));
    let most = if between >= 9 { between - 3 } else { between.div_ceil(2) };
    let lines = model.lines.len().min(usize::from(most));
    for line in &model.lines[..lines] {
        figure(line, now, &mut page);
    }
    if high {
        page.y += 1;
    }
    let room = foot.saturating_sub(page.y);
    if model.help {
        for text in KEYS.into_iter().take(room.into()) {
            page.text(text, PLAIN);
        }
    } else {
        table(model, room, &mut page);
    }
    page.y = foot;
    if let Some(text) = model.said.last() {
        page.text(text, BAD);
    }
    if page.y < height {
        let keys = if model.ending { "ending; q again: at once" } else { "q end  ? keys" };
        page.pair((keys, if model.ending { BAD } else { FAINT }), (&model.own, FAINT));
    }
}

/// What it is, what is measured now, how far it is.
fn head(model: &Model, now: Duration, page: &mut Page<'_>) {
    page.pair((&model.title, BOLD), (&model.place, FAINT));
    let row = model.row(&model.now).map(|place| &model.rows[place]);
    let measured = match row.filter(|row| row.cells.len() > 1).map(|row| &row.cells[0]) {
        Some(figure) => format!("{}, so far {figure}", model.now),
        None => model.now.clone(),
    };
    page.pair((&measured, BOLD), (&model.count, PLAIN));
    let left = model
        .left(now)
        .map_or(String::new(), |left| format!(", {} left", duration::say(left.as_secs_f64())));
    let words = format!(" {:.0} %{left}", (model.share * 100.0).floor());
    let room = page.width.saturating_sub(words.chars().count() as u16);
    let full = (f64::from(room) * model.share) as usize;
    let bar: String = (0..room).map(|at| if usize::from(at) < full { '█' } else { '░' }).collect();
    page.pair((&bar, GOOD), (&words, PLAIN));
    if page.height >= HIGH {
        page.text(&model.last, FAINT);
    }
}

/// Where a figure's last minute begins.
fn bars(width: u16) -> u16 {
    if width >= WIDE { NAME + VALUE + MORE } else { NAME + VALUE }
}

/// A figure, and its last minute.
fn figure(line: &Line, now: Duration, page: &mut Page<'_>) {
    let y = page.y;
    page.put(0, y, line.metric.name(), NAME.saturating_sub(1), PLAIN);
    page.put(NAME, y, &line.now, VALUE, BOLD);
    let x = bars(page.width);
    page.put(NAME + VALUE, y, &line.more, (x - NAME - VALUE).saturating_sub(1), PLAIN);
    let parts = line.parts(now, page.width.saturating_sub(x).into());
    let most = parts.iter().flatten().copied().fold(0.0, f64::max);
    let bars: String = parts.into_iter().map(|part| bar(part, most)).collect();
    page.put(x, y, &bars, page.width.saturating_sub(x), BAR);
    page.y += 1;
}

fn bar(value: Option<f64>, most: f64) -> char {
    match value {
        Some(value) if value > 0.0 && most > 0.0 => {
            let eighth = (value / most * BARS.len() as f64).ceil() as usize;
            BARS[eighth.clamp(1, BARS.len()) - 1]
        }
        Some(_) => '_',
        None => ' ',
    }
}

/// A heading and as many rows as there is room for, with the columns that fit.
fn table(model: &mut Model, room: u16, page: &mut Page<'_>) {
    model.page = usize::from(room.saturating_sub(1)).max(1);
    model.top = model.top.min(model.rows.len().saturating_sub(model.page));
    if room < 2 {
        return;
    }
    let shown = &model.rows[model.top..model.rows.len().min(model.top + model.page)];
    let columns = Columns::of(&model.header, &model.rows, page.width.into());
    let place = match model.rows.len() {
        all if all > shown.len() => {
            format!("{} {}-{} of {all}", model.header[0], model.top + 1, model.top + shown.len())
        }
        _ => model.header[0].to_owned(),
    };
    let heading = model.header[1..].iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    page.row(&format!("  {place}"), &heading, &columns, FAINT);
    for row in shown {
        let now = row.title == model.now;
        let style = match (row.bad, now) {
            (true, _) => BAD,
            (false, true) => BOLD,
            (false, false) if row.cells.is_empty() => FAINT,
            (false, false) => PLAIN,
        };
        let mark = if now { "> " } else { "  " };
        page.row(&format!("{mark}{}", row.title), &row.cells, &columns, style);
    }
}

/// How wide the columns of the table are.
struct Columns {
    /// The first one, with the titles: what the others leave.
    first: usize,
    /// Those after it, from the left as far as they fit.
    others: Vec<usize>,
}

impl Columns {
    /// All rows count, so that scrolling moves no column.
    fn of(header: &[&str], rows: &[Row], width: usize) -> Self {
        let titles = rows.iter().map(|row| row.title.chars().count()).max().unwrap_or(0) + 2;
        let mut left = width.saturating_sub(titles.clamp(TITLE, (width / 2).max(TITLE)));
        let mut others = Vec::new();
        for (column, name) in header.iter().enumerate().skip(1) {
            let cells = rows.iter().filter_map(|row| row.cells.get(column - 1));
            let cells = cells.map(|cell| cell.chars().count());
            let widest = cells.chain([name.chars().count()]).max().unwrap_or(0);
            if widest + 2 > left {
                break;
            }
            left -= widest + 2;
            others.push(widest);
        }
        Self { first: width - others.iter().map(|width| width + 2).sum::<usize>(), others }
    }
}

/// Where the next line goes.
struct Page<'a> {
    buffer: &'a mut Buffer,
    width: u16,
    height: u16,
    y: u16,
}

impl Page<'_> {
    /// Text of at most `most` columns; what is beyond the screen is not drawn.
    fn put(&mut self, x: u16, y: u16, text: &str, most: u16, style: Style) {
        if x < self.width && y < self.height {
            self.buffer.set_stringn(x, y, text, most.min(self.width - x).into(), style);
        }
    }

    fn text(&mut self, text: &str, style: Style) {
        self.put(0, self.y, text, self.width, style);
        self.y += 1;
    }

    /// A line with something at its right end, which is left out where there is no room for both.
    fn pair(&mut self, left: (&str, Style), right: (&str, Style)) {
        let length = right.0.chars().count() as u16;
        let first = left.0.chars().count() as u16;
        let fits = length > 0 && first.saturating_add(length) <= self.width;
        let most = if fits { self.width - length } else { self.width };
        self.put(0, self.y, left.0, most, left.1);
        if fits {
            self.put(self.width - length, self.y, right.0, length, right.1);
        }
        self.y += 1;
    }

    /// A title, then columns that end where they end in every row.
    fn row(&mut self, title: &str, cells: &[String], columns: &Columns, style: Style) {
        let first = columns.first;
        let title: String = title.chars().take(first).collect();
        let mut line = format!("{title:first$}");
        for (place, width) in columns.others.iter().enumerate() {
            let cell = cells.get(place).map_or("", |cell| &cell[..]);
            line += &format!("  {cell:>width$}");
        }
        self.text(&line, style);
    }
}
