/* What a reader takes away as a picture: a card of one guess, and a sheet of all numbers of a chapter.  A page of the
   book and JupyterLab use this same file, with the words of `guess.js`.

   A number is {question, kept, measured, interval, ends, run}: kept as guess.js keeps it, measured and the interval's
   two ends in the question's unit, `ends` what kind of interval it is, run where it was measured.  Both are drawn as
   SVG that needs no font or picture from elsewhere, and `save` hands it out as it is or as the pixels of a PNG. */

const COLOURS = { paper: "#fefefe", ink: "#1c2530", neutral: "#5c6773", grid: "#e1e5ea", own: "#20335e" }; // as figures in the light
const FONT = "system-ui, sans-serif";

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const short = (number) => String(Math.round(number * 100) / 100);

let pen = null;
const room = (words, size, weight) => {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${weight} ${size}px ${FONT}`;
  return 1.03 * pen.measureText(words).width; // another computer's font may be a little wider
};

const wrapped = (words, width, size, weight) => {
  const lines = [""];
  for (const word of words.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (lines.at(-1) && room(longer, size, weight) > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
};

/* Text from (x, y) down, as {svg, words, y}: the drawing, what it says, and where it ended. */
class Column {
  constructor(x, y, width) {
    Object.assign(this, { x, y, width, svg: "", words: [] });
  }

  text(words, size, { weight = 400, fill = COLOURS.ink, after = 0 } = {}) {
    this.words.push(words);
    for (const line of wrapped(words, this.width, size, weight)) {
      this.y += 1.28 * size;
      this.svg += `<text x="${short(this.x)}" y="${short(this.y - 0.3 * size)}" font-size="${short(size)}" font-weight="${weight}" fill="${fill}">${escaped(line)}</text>`;
    }
    this.y += after;
  }

  // On one line, as large as that allows.
  large(words, size, more) {
    this.text(words, Math.min(size, (size * this.width) / room(words, size, more.weight ?? 400)), more);
  }

  rule(after = 0) {
    this.svg += `<line x1="${short(this.x)}" x2="${short(this.x + this.width)}" y1="${short(this.y)}" y2="${short(this.y)}" stroke="${COLOURS.neutral}"/>`;
    this.y += after;
  }
}

const whole = (width, height, title, columns) => {
  const said = columns.flatMap(({ words }) => words).join(". ");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(`${title}. ${said}`)}" font-family="${escaped(FONT)}">`
    + `<rect width="${width}" height="${height}" fill="${COLOURS.paper}"/>${columns.map(({ svg }) => svg).join("")}</svg>`;
};

const known = (measured) => typeof measured === "string" || Number.isFinite(measured);

const drawing = ({ words, compared }) => {
  const between = ({ question: { unit }, interval, ends }) => (interval ? `${words(interval[0], unit)} to ${words(interval[1], unit)} (${ends})` : "");
  const verdict = ({ question: { unit }, kept, measured }) => (known(measured) && !kept.declined ? compared(kept.value, measured, unit).text : "");

  const card = (one) => {
    const { question: { text, unit }, kept, measured, run } = one, inside = 552;
    const column = new Column(24, 20, inside);
    column.text(text, 17, { weight: 600, after: 14 });
    const half = inside / 2 - 8, below = column.y;
    const sides = [["guessed", words(kept.value, unit), ""], ["measured", known(measured) ? words(measured, unit) : "cannot tell", between(one)]].map(([name, value, more], n) => {
      const side = new Column(24 + n * (half + 16), below, half), fill = n ? COLOURS.own : COLOURS.ink;
      side.text(name, 14, { fill: COLOURS.neutral });
      side.large(value, 40, { weight: 700, fill });
      if (more) side.text(more, 12, { fill: COLOURS.neutral });
      return side;
    });
    const last = new Column(24, Math.max(...sides.map(({ y }) => y)) + 10, inside);
    if (verdict(one)) last.text(verdict(one), 20, { weight: 600, after: 12 });
    last.rule(6);
    last.text(run || "sched-labs", 10, { fill: COLOURS.neutral });
    return whole(600, Math.ceil(last.y + 16), "A guess and what was measured", [column, ...sides, last]);
  };

  const block = (column, one, size, source) => {
    const { question: { text, unit }, kept, measured } = one;
    column.text(text, size, { weight: 600 });
    if (!kept) column.text("No guess yet: its number waits for one.", size, { fill: COLOURS.neutral });
    else {
      column.large(known(measured) ? words(measured, unit) : "cannot tell here", 1.7 * size, { weight: 700, fill: COLOURS.own });
      const beside = [between(one), source && known(measured) ? `[${source}]` : ""].filter(Boolean).join(" ");
      if (beside) column.text(beside, 0.85 * size, { fill: COLOURS.neutral });
      const told = verdict(one);
      column.text(kept.declined ? "No guess made." : `Guessed ${words(kept.value, unit)}${told && `: ${told}`}.`, size);
    }
    column.y += 0.9 * size;
  };

  const laid = (title, numbers, size, [width, height, edge, gap]) => {
    const head = new Column(edge, edge, width - 2 * edge);
    head.text(title, 1.9 * size, { weight: 700 });
    head.text("My guesses, and what was measured", 1.1 * size, { fill: COLOURS.neutral, after: 0.6 * size });
    head.rule(size);
    const day = (run) => run?.replace(/ \d\d:\d\d:\d\d UTC/, ""); // the hour would give each number a source of its own
    const runs = [...new Set(numbers.filter(({ kept, run }) => kept && run).map(({ run }) => day(run)))];
    const wide = (width - 2 * edge - gap) / 2;
    const heights = numbers.map((one) => {
      const trial = new Column(0, 0, wide);
      block(trial, one, size, 10);
      return trial.y;
    });
    const all = heights.reduce((sum, each) => sum + each, 0);
    const columns = [new Column(edge, head.y, wide), new Column(edge + wide + gap, head.y, wide)];
    let before = 0;
    numbers.forEach((one, n) => {
      block(columns[before + heights[n] / 2 > all / 2 ? 1 : 0], one, size, runs.indexOf(day(one.run)) + 1);
      before += heights[n];
    });
    const foot = new Column(edge, Math.max(...columns.map(({ y }) => y)), width - 2 * edge);
    foot.rule(0.6 * size);
    runs.forEach((run, n) => foot.text(`[${n + 1}] ${run}`, 0.75 * size, { fill: COLOURS.neutral }));
    foot.text("Measured with sched-labs.", 0.75 * size, { fill: COLOURS.neutral });
    return { columns: [head, ...columns, foot], bottom: foot.y + edge };
  };

  // One page of A4, with letters as large as all of it allows.
  const sheet = (title, numbers) => {
    const paper = [794, 1123, 46, 30];
    let size = 16, made = laid(title, numbers, size, paper);
    while (made.bottom > paper[1] && size > 4) made = laid(title, numbers, (size -= 0.5), paper);
    return whole(paper[0], paper[1], title, made.columns);
  };

  return { card, sheet };
};

/* ---- out of the page ---- */

const pixels = (svg) => new Promise((done, fail) => {
  const image = new Image();
  image.onerror = () => fail(new Error("this browser cannot draw the picture"));
  image.onload = () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("this browser makes no PNG"))));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
});

// Resolves once the file is handed to the browser; fails with words for the reader.
const save = async (svg, name, kind = "png") => {
  const blob = kind === "png" ? await pixels(svg) : new Blob([svg], { type: "image/svg+xml" });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${name.replace(/\W+/g, "-")}.${kind}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};

export default { drawing, save };
