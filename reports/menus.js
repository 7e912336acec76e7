// The menus of the bar: one open at a time; a link, Escape or a click elsewhere closes them.

const open = () => document.querySelectorAll(".menu[open]");

document.addEventListener("click", ({ target }) => {
  for (const menu of open()) if (!menu.contains(target) || target.closest("a")) menu.open = false;
});
document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape") return;
  for (const menu of open()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// A link to a part that is folded, or into it, opens it; in print all parts are open.

document.addEventListener("click", ({ target }) => {
  const id = target.closest("a[href^='#']")?.getAttribute("href").slice(1);
  const place = id && document.getElementById(id);
  const fold = place && (place.querySelector(":scope > .fold") ?? place.closest(".fold"));
  if (fold) fold.open = true;
});
const closed = [];
addEventListener("beforeprint", () => {
  closed.push(...document.querySelectorAll("details:not([open])"));
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of closed.splice(0)) one.open = false;
});
