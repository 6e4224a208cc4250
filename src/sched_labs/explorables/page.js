/* Brings the explorables and the exercises of a page to life.  `modules` are all of them (sched_labs.explorables.modules). */

const wake = (place) => {
  for (const figure of place.querySelectorAll("[data-explorable]")) {
    const host = figure.querySelector(".sl-x-host");
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    modules.frame.mount(host, modules[figure.dataset.explorable], data);
  }
  for (const host of place.querySelectorAll(".sl-exercise")) {
    modules.exercise.view(modules.guess).mount(host, JSON.parse(host.dataset.exercise));
  }
};

window.schedLabsModules = modules;
window.schedLabsModules.wake = wake; // for cells that run on this page
wake(document);
