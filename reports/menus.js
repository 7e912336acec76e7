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
