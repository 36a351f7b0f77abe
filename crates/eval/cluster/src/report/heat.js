"use strict";
// Draws the heat maps: a pixel for each pair, in one picture, however many there are. What it finds
// in the page is written by heat.rs.
(() => {
  const LIGHT_TO_DARK = [[247, 244, 225], [150, 211, 180], [49, 137, 186], [84, 39, 143], [43, 8, 40]];
  const NONE = [150, 150, 150];
  const STEPS = 254;

  const colour = (share) => {
    const at = Math.min(share, 0.9999) * (LIGHT_TO_DARK.length - 1);
    const [from, to] = [LIGHT_TO_DARK[Math.floor(at)], LIGHT_TO_DARK[Math.floor(at) + 1]];
    return from.map((part, i) => part + (to[i] - part) * (at % 1));
  };

  const palette = (less) => {
    const words = new Uint32Array(256);
    const bytes = new Uint8ClampedArray(words.buffer);
    for (let step = 0; step < 256; step += 1) {
      const share = (step - 1) / STEPS;
      bytes.set([...(step === 0 ? NONE : colour(less ? share : 1 - share)), 255], 4 * step);
    }
    return words;
  };

  const draw = (canvas, names) => {
    const count = names.length;
    const text = atob(canvas.dataset.cells);
    const context = canvas.getContext("2d");
    const [low, high] = [Number(canvas.dataset.low), Number(canvas.dataset.high)];
    const words = palette(canvas.dataset.less === "true");
    canvas.width = count;
    canvas.height = count;
    const picture = context.createImageData(count, count);
    const pixels = new Uint32Array(picture.data.buffer);
    for (let i = 0; i < pixels.length; i += 1) pixels[i] = words[text.charCodeAt(i)];
    context.putImageData(picture, 0, 0);
    // Where there are fewer pixels than cells, each shows the mean of its cells.
    canvas.classList.toggle("many", count > 400);

    const said = canvas.parentElement.querySelector(".at");
    const hint = said.textContent;
    let [row, column] = [0, Math.min(1, count - 1)];
    const show = () => {
      const step = text.charCodeAt(row * count + column);
      const value = low * (high / low) ** ((step - 1) / STEPS);
      const figure = step === 0 ? "none" : `${value.toPrecision(3)} ${canvas.dataset.unit}`;
      said.textContent = `${names[row]} to ${names[column]}: ${figure}`;
    };
    const inside = (at) => Math.max(0, Math.min(count - 1, at));
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      row = inside(Math.floor((event.clientY - box.top) / box.height * count));
      column = inside(Math.floor((event.clientX - box.left) / box.width * count));
      show();
    });
    canvas.addEventListener("mouseleave", () => { said.textContent = hint; });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      [row, column] = [inside(row + move[0]), inside(column + move[1])];
      show();
    });

    if (count > 100) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "small";
      button.textContent = "Larger";
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        const wide = canvas.parentElement.classList.toggle("wide");
        button.setAttribute("aria-pressed", String(wide));
      });
      said.before(button);
    }
  };

  for (const group of document.querySelectorAll("[data-names]")) {
    const names = JSON.parse(group.dataset.names);
    for (const canvas of group.querySelectorAll("canvas")) draw(canvas, names);
  }
})();
