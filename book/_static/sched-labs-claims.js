/* The page of all claims: a field that finds a word, and a list that keeps one verdict. */
"use strict";

(() => {
  const said = document.querySelector(".sl-claims-said");
  if (!said) return;
  const { element } = window.schedLabs;
  const word = Object.assign(element("input", ""), { type: "search", name: "word" });
  const verdict = element("select", "");
  for (const text of ["any verdict", "does not hold here", "holds here", "cannot tell here"]) verdict.append(new Option(text));
  const count = element("span", "sl-said");
  count.setAttribute("role", "status");
  const form = element("form", "sl-form",
    element("label", "", "Find ", word), element("label", "", "Verdict ", verdict), count);
  said.after(form);

  const filter = () => {
    const wanted = word.value.trim().toLowerCase(), outcome = verdict.selectedIndex ? verdict.value : "";
    const idle = !wanted && !outcome;
    let shown = 0;
    for (const kind of document.querySelectorAll("details.sl-kind")) {
      let here = 0;
      for (const row of kind.querySelectorAll("tbody tr")) {
        const fits = row.textContent.toLowerCase().includes(wanted) && (!outcome || row.querySelector(".verdict")?.textContent === outcome);
        row.hidden = !fits;
        here += fits;
      }
      kind.hidden = here === 0;
      kind.open = !idle && here > 0;
      shown += here;
    }
    count.textContent = idle ? "" : shown === 1 ? "one sentence" : `${shown} sentences`;
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  word.addEventListener("input", filter);
  verdict.addEventListener("change", filter);
})();
