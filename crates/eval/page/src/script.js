"use strict";
// What a page can do where scripts run: figures say their points, legends hide lines, commands are copied.
// Nothing is fetched and nothing is kept. What it finds in the page is written by figure.rs and svg.rs.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  const made = (tag, classes, text = "") => {
    const element = document.createElement(tag);
    element.className = classes;
    element.textContent = text;
    return element;
  };

  // What changed, for those who do not see it.
  const status = made("p", "unseen");
  status.setAttribute("role", "status");
  document.querySelector("main").append(status);
  const say = (text) => { status.textContent = text; };

  // --- Lines that are hidden, by name. A name has the same look in every figure, so all figures follow.
  const hidden = new Set();

  const follow = () => {
    for (const part of all("svg [data-line]")) {
      part.classList.toggle("off", hidden.has(part.dataset.line));
    }
    for (const entry of all(".legend li[data-line]")) {
      entry.firstChild.setAttribute("aria-pressed", String(!hidden.has(entry.dataset.line)));
    }
    for (const entry of all(".legend li.every")) entry.hidden = hidden.size === 0;
  };

  const toggle = (name) => {
    if (!hidden.delete(name)) hidden.add(name);
    follow();
    say(`${name} ${hidden.has(name) ? "hidden" : "shown"} in all figures`);
  };

  const legend = (list) => {
    for (const entry of all("li", list)) {
      const button = made("button", "line-name");
      button.type = "button";
      button.append(...entry.childNodes);
      button.addEventListener("click", () => toggle(entry.dataset.line));
      entry.append(button);
    }
    const every = made("li", "every");
    const button = made("button", "small", "Show all");
    button.type = "button";
    button.addEventListener("click", () => {
      // It is about to go: whoever was on it goes to the first line.
      list.querySelector("button").focus();
      hidden.clear();
      follow();
      say("all lines shown in all figures");
    });
    every.append(button);
    list.append(every);
  };

  // --- A figure's points, by pointer, touch and keys.
  const REACH = 28; // CSS pixels within which a point is meant
  const SMALL = 400; // CSS pixels of a figure's width
  const HELP = "Arrow keys left and right go along a line, up and down to the next line, Escape ends.";

  const plot = (place) => {
    const svg = place.querySelector("svg");
    const points = all("[data-at]", svg).map((mark) => {
      const [x, y] = mark.dataset.at.split(" ").map(Number);
      const title = mark.querySelector("title");
      const tip = title.textContent;
      title.remove(); // Or the browser shows it beside ours.
      return { mark, x, y, tip, line: mark.parentNode };
    });
    if (points.length === 0) return;
    const tip = made("div", "tip");
    tip.hidden = true;
    place.append(tip);
    place.tabIndex = 0;
    place.setAttribute("role", "application");
    place.setAttribute("aria-roledescription", "figure");
    place.setAttribute("aria-label", `${svg.getAttribute("aria-label")}. ${HELP}`);
    let current = null;

    const shown = () => points.filter((point) => !hidden.has(point.line.dataset.line));
    const scale = () => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;

    const hide = () => {
      current?.mark.classList.remove("at");
      current = null;
      tip.hidden = true;
    };

    const show = (point) => {
      current?.mark.classList.remove("at");
      current = point;
      point.mark.classList.add("at");
      const lines = point.tip.split("\n");
      tip.replaceChildren(...lines.map((line, at) => made(at === 0 ? "b" : "span", "", line)));
      tip.hidden = false;
      // Beside the point, above it where there is room, never beyond the figure; below a small figure, which
      // it would hide.
      const by = scale();
      const top = svg.getBoundingClientRect().top - place.getBoundingClientRect().top + point.y * by;
      const above = top - tip.offsetHeight - 12;
      const most = place.clientWidth - tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(point.x * by - tip.offsetWidth / 2, most))}px`;
      const beside = above < 0 ? top + 14 : above;
      tip.style.top = `${place.clientWidth < SMALL ? place.clientHeight : beside}px`;
    };

    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      const by = scale();
      const far = (point) =>
        Math.hypot(box.left + point.x * by - event.clientX, box.top + point.y * by - event.clientY);
      const best = shown().sort((a, b) => far(a) - far(b))[0];
      return best !== undefined && far(best) <= REACH ? best : null;
    };

    const pointed = (event) => {
      const point = nearest(event);
      if (point === null) hide();
      else if (point !== current) show(point);
    };
    place.addEventListener("pointermove", pointed);
    place.addEventListener("pointerdown", pointed);
    place.addEventListener("pointerleave", (event) => {
      // A finger that is lifted leaves, too; what it showed stays until it taps elsewhere.
      if (event.pointerType === "mouse" && document.activeElement !== place) hide();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!place.contains(event.target)) hide();
    });

    const told = (point) => {
      show(point);
      say(point.tip.split("\n").join("; "));
    };

    // The next line's point at the same place or nearest to it: upwards (-1) or downwards (1).
    const across = (way) => {
      const near = (line) =>
        shown()
          .filter((point) => point.line === line)
          .sort((a, b) => Math.abs(a.x - current.x) - Math.abs(b.x - current.x))[0];
      const lines = [...new Set(shown().map((point) => point.line))].map(near);
      lines.sort((a, b) => a.y - b.y || points.indexOf(a) - points.indexOf(b));
      return lines[lines.findIndex((point) => point.line === current.line) + way];
    };

    const along = (step) => {
      const line = shown().filter((point) => point.line === current.line);
      const at = { first: 0, last: line.length - 1 }[step] ?? line.indexOf(current) + step;
      return line[at];
    };

    const moves = {
      ArrowLeft: () => along(-1),
      ArrowRight: () => along(1),
      ArrowUp: () => across(-1),
      ArrowDown: () => across(1),
      Home: () => along("first"),
      End: () => along("last"),
    };
    place.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      const move = moves[event.key];
      if (move === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      const start = current === null || hidden.has(current.line.dataset.line);
      const next = start ? shown()[0] : move();
      if (next !== undefined) told(next);
    });
    place.addEventListener("focus", () => {
      const first = shown()[0];
      if (place.matches(":focus-visible") && first !== undefined) told(first);
    });
    place.addEventListener("blur", hide);
  };

  // --- Commands.
  const copied = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      // Not allowed or, on a page from a plain server, not there: the old way needs a selection.
      getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    }
  };

  const command = (code) => {
    const what = code.closest("li")?.querySelector("span").textContent ?? "the run";
    const button = made("button", "small", "Copy");
    button.type = "button";
    button.setAttribute("aria-label", `Copy the command for ${what}`);
    button.addEventListener("click", async () => {
      const done = await copied(code);
      button.textContent = done ? "Copied" : "Selected";
      say(done ? "copied" : "selected; copy it with the keyboard");
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    (code.closest("pre") ?? code).after(button);
  };

  // --- Everything that is folded goes to paper.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  // --- What fits needs no key to be scrolled.
  const scrolled = () => {
    for (const table of all(".scroll")) {
      if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
      else table.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", scrolled);
  document.addEventListener("toggle", scrolled, true);
  scrolled();

  all(".legend").forEach(legend);
  all(".plot").forEach(plot);
  all("code.command, pre > code").forEach(command);
  follow();
})();
