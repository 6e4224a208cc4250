/* How far the chapters are that are measured behind this page (sched_labs.book.behind), and the way to the new figures.

   A page whose chapter has been measured since loads itself again where nobody has touched it yet; elsewhere it
   offers to, and says what would be lost. */
"use strict";

(() => {
  const { server, ask, element, page } = window.schedLabs;
  const title = document.querySelector(".bd-article h1");
  if (server === null || !title) return;
  const EVERY_MS = 3000;
  const told = document.querySelector("script.sl-chapter");
  const made = told ? JSON.parse(told.textContent).made : null;

  let touched = false, typed = false;
  for (const kind of ["pointerdown", "keydown", "input", "wheel"]) {
    addEventListener(kind, () => {
      touched = true;
      typed ||= kind === "input";
    }, { passive: true, capture: true });
  }

  const says = element("span", ""), line = element("span", "sl-measuring-line");
  says.setAttribute("role", "status");
  const note = element("p", "sl-note sl-measuring", says, " ", line);

  const say = (words) => {
    if (says.textContent !== words) says.textContent = words; // a screen reader hears what is new, once
  };

  const offer = () => {
    if (note.querySelector("button")) return;
    const press = Object.assign(element("button", "sl-run", "Show it"), { type: "button" });
    press.addEventListener("click", () => location.reload());
    note.append(" ", press);
  };

  const about = (chapters) => {
    const all = chapters.length, done = chapters.filter(({ state }) => state === "measured").length;
    const busy = chapters.find(({ state }) => state === "measuring" || state === "writing");
    const now = busy ? `: ${done} of ${all} are done, now “${busy.title}”` : "";
    return `The chapters are being measured on your machine${now}.`;
  };

  // What this page says of its own chapter, and whether newer pages of it are there.
  const own = (chapters, ended) => {
    const place = chapters.findIndex(({ name }) => name === page.chapter), one = chapters[place];
    if (!one) return ended ? "" : about(chapters);
    if (one.state === "measured" && one.made !== made) return "new";
    if (one.state === "measured") return ended ? "" : about(chapters);
    if (one.state === "failed") return `This chapter could not be measured on your machine (${one.said}). Its pages stay as they were.`;
    const before = chapters.slice(0, place).filter(({ state }) => state !== "measured" && state !== "failed").length;
    const turn = { measuring: "It is being measured on your machine now.", writing: "It has been measured on your machine; its pages are being written." }[one.state]
      ?? (ended ? "" : `Your machine measures it ${before === 0 ? "next" : `after ${before} other${before === 1 ? "" : "s"}`}.`);
    return `This chapter's figures are runs of an earlier day or of another machine, as each says. ${turn}`;
  };

  const look = async () => {
    const { chapters, line: now, ended } = await ask("GET", "measuring").catch(() => ({}));
    if (!chapters) return note.remove();
    const words = own(chapters, ended);
    if (!words) return note.remove();
    if (!note.isConnected) title.after(note);
    if (words === "new") {
      const again = performance.getEntriesByType("navigation")[0]?.type === "reload"; // once, whatever the page says
      if (!touched && !again && scrollY === 0) return location.reload();
      const running = document.querySelector(".sl-running, .sl-run:disabled"), tries = document.querySelector(".sl-try");
      const lost = running ? " What runs on this page would be stopped." : tries || typed ? " What you have tried or typed here without keeping it would go." : "";
      say(`This chapter has been measured on your machine.${lost}`);
      line.textContent = "";
      offer();
    } else {
      say(words);
      line.textContent = now;
    }
    if (!ended || words === "new") setTimeout(look, EVERY_MS);
  };

  look();
})();
