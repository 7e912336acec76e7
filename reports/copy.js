// Buttons that copy a text of the page; without scripts they stay hidden, and the text is there.

async function copied(text) {
  // Whether the text is in the clipboard now: in the older way where a browser closes the newer.
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

for (const button of document.querySelectorAll("button[data-copies]")) {
  const words = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copies).innerText;
    button.textContent = (await copied(text)) ? "Copied" : "Select it and copy by hand";
    button.focus();
    setTimeout(() => (button.textContent = words), 2000);
  });
}
