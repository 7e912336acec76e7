// Draws each chart again from its specification, with tooltips, once it comes near the screen.
// Until then, and wherever this fails or scripts are off, the static picture stays.

const narrow = matchMedia("screen and (max-width: 700px)");
const dark = matchMedia("(prefers-color-scheme: dark)");

function wrapped(text, letters) {
  // The lines of a title, none longer than so many letters unless one word is.
  const lines = [""];
  for (const word of text.replaceAll(" = ", "\u00a0=\u00a0").split(" ")) {
    const line = `${lines.at(-1)} ${word}`.trim();
    if (line.length <= letters || !lines.at(-1)) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines;
}

function labels(spec, field, letters) {
  // The expression that breaks the values of a field, where they are labels, into lines.
  const values = new Set(Object.values(spec.datasets)[0].map((row) => row[field]));
  const lines = [...values].map((value) => [value, wrapped(value, letters)]);
  return `${JSON.stringify(Object.fromEntries(lines))}[datum.value]`;
}

const MOST_WIDTHS = 4;  // of a screen: how wide a chart of many nights is on a phone
const PER_NIGHT = 9;  // pixels

function fit(spec, width) {
  // As many panels side by side as there is room for; on a narrow screen one, as wide as that.
  if (spec.facet?.row) return spec;  // a grid of pictures keeps its shape
  const out = structuredClone(spec);
  const layers = (out.spec ?? out).layer;
  const squares = isSquare(out);
  const named = !squares && layers.some((layer) => layer.encoding.y?.type === "nominal");
  if (dark.matches && squares) {
    const { scale } = layers[0].encoding.color;
    delete scale.scheme;
    Object.assign(scale, { domain: [-1, 0, 1], range: spec.usermeta.dark, interpolate: "rgb" });
  }
  if (spec.usermeta?.newest && width < 900)  // no room for reasons beside the gaps: the caption says them
    for (const { encoding } of layers) if (encoding.text) encoding.text = { value: "?" };
  if (!narrow.matches) {
    const rows = Object.values(out.datasets)[0];
    if (out.facet) out.columns = Math.min(out.columns, new Set(rows.map((row) => row[out.facet.field])).size);
    const room = Math.floor((width - 20) / out.columns) - 45;  // of a panel
    if (out.facet && !squares && out.spec.width > room && room >= 210) {
      out.spec.width = room;
      out.facet.header = { ...out.facet.header, labelLimit: room + 16, labelExpr: labels(out, out.facet.field, room / 8.4) };
    }
    const wide = (out.spec?.width ?? 0) + (squares ? 48 : 45);
    while (out.facet && out.columns > 1 && out.columns * wide > width + 16) out.columns -= squares && out.columns % 2 === 0 ? 2 : 1;
    if (out.facet) out.columns = Math.max(1, out.columns);
    return out;
  }
  if (named) {
    out.config.axis.labelLimit = 125;
    const field = layers.at(-1).encoding.y.field, size = (out.spec ?? out).height;
    const lines = Object.values(out.datasets)[0].map((row) => wrapped(`${row[field] ?? ""}`, 18).length);
    if (size?.step) size.step = Math.max(size.step, 15 * Math.max(...lines));
  }
  out.config.legend.columns = 1;
  (out.spec ?? out).width = width - 80;
  if (spec.usermeta?.newest) newestFirst(out, width);
  if (squares) out.spec.height = out.spec.width;
  if (out.facet) {
    out.columns = 1;
    out.resolve = { ...out.resolve, axis: { ...out.resolve?.axis, x: "independent" } };
    const labelExpr = labels(out, out.facet.field, out.spec.width / 8.4);
    out.facet.header = { ...out.facet.header, labelLimit: out.spec.width + 16, labelExpr };
  }
  for (const { encoding } of layers) {
    if (encoding.x?.axis?.tickCount && !(out.usermeta?.wide > width)) encoding.x.axis.tickCount = 3;
    if (encoding.x?.axis?.values) encoding.x.axis.labelSeparation = 12;
    if (named && encoding.y) encoding.y.axis = { ...encoding.y.axis, labelExpr: labels(out, encoding.y.field, 18) };
  }
  return out;
}

function newestFirst(out, width) {
  // A chart of many nights is wider than a phone; its end, with the axis and the legend, is seen.
  const runs = new Set(Object.values(out.datasets)[0].map((row) => row.run)).size;
  const wide = Math.min(PER_NIGHT * runs, MOST_WIDTHS * width);
  if (wide < 1.3 * width) return;
  out.usermeta.wide = wide;
  out.config.legend.layout = { top: { anchor: "end" } };
  for (const { encoding } of out.layer) {
    if (encoding.y?.title) encoding.y.axis = { ...encoding.y.axis, orient: "right" };
    if (encoding.x) encoding.x.axis = { ...encoding.x.axis, titleAnchor: "end" };
  }
}

const isSquare = (spec) => spec.spec?.layer?.[0].mark.type === "rect";

async function filled(live, spec, card) {
  // Draw a chart as wide as its card, or wider: what its labels take is known once it is drawn.
  const width = spec.usermeta?.wide ?? card;
  live.classList.toggle("wide", width > card);
  const options = { renderer: "svg", actions: false, tooltip: { theme: dark.matches ? "dark" : "light" } };
  for (let tries = 3; ; tries--) {
    await window.vegaEmbed(live, spec, options);
    const panel = spec.facet ? spec.spec : spec;
    live.scrollLeft = live.scrollWidth;
    const missing = (width - live.querySelector("svg").getAttribute("width")) / (spec.facet ? spec.columns : 1);
    if (!tries || spec.facet?.row || isSquare(spec) || (missing >= 0 && missing < 2)) return;
    panel.width = Math.max(80, panel.width + Math.floor(missing));
  }
}

function choice(element) {
  // What the reader of a section has left out, and which of several means is to be drawn.
  const section = element.closest(".experiment");
  const boxes = section?.querySelectorAll(".filter [name=class]:not(:checked)") ?? [];
  const span = section?.querySelector(".filter [name=span]:checked")?.value;
  return { without: new Set([...boxes].map((box) => box.value)), span };
}

function chosen(spec, { without, span }) {
  // The specification with the marks of that choice.
  const keep = (row) => !without.has(row.class) && (!span || !row.span || row.span === span);
  for (const [name, rows] of Object.entries(spec.datasets))
    spec.datasets[name] = rows.filter(keep);
  for (const { data } of spec.layer ?? []) if (data) data.values = data.values.filter(keep);
  if (spec.layer) spec.layer = spec.layer.filter(({ data }) => !data || data.values.length);
  return spec;
}

async function draw(figure) {
  const spec = chosen(JSON.parse(figure.querySelector("script").textContent), choice(figure));
  const live = figure.querySelector(".live");
  live.hidden = false;
  figure.dataset.width = figure.clientWidth;
  const width = Math.max(figure.clientWidth - 2 * parseFloat(getComputedStyle(figure).paddingLeft), 280);
  spec.config.font = getComputedStyle(live).fontFamily; // as wide as it is measured
  try {
    await filled(live, fit(spec, width), width);
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", figure.querySelector(".static").getAttribute("aria-label"));
    figure.dataset.state = "live";
  } catch (error) {
    live.hidden = true;
    console.error(error);
  }
}

async function take(figure, kind) {
  // Save the whole picture as it is on a wide screen, on white, with the reader's choice of marks.
  const spec = chosen(JSON.parse(figure.querySelector("script").textContent), choice(figure));
  Object.assign(spec, { background: "white", padding: 24 });  // room for wider fonts elsewhere
  const { view } = await window.vegaEmbed(document.createElement("div"), spec, { renderer: "none", actions: false });
  const blob =
    kind === "svg"
      ? new Blob([await view.toSVG()], { type: "image/svg+xml" })
      : await view.toCanvas(3).then((canvas) => new Promise((done) => canvas.toBlob(done)));
  view.finalize();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${figure.dataset.name}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

for (const figure of document.querySelectorAll("figure.chart")) {
  figure.querySelector(".png").hidden = false;
  figure.querySelector(".png button").addEventListener("click", () => take(figure, "png").catch(console.error));
  figure.querySelector(".svg").addEventListener("click", (event) => {
    const { without, span } = choice(figure);
    if (!without.size && !span) return;  // the link has the whole picture
    event.preventDefault();
    take(figure, "svg").catch(console.error);
  });
}

const near = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      draw(entry.target);
    }
  },
  { rootMargin: "800px" },
);
for (const figure of document.querySelectorAll("figure.chart")) near.observe(figure);
for (const query of [narrow, dark])
  query.addEventListener("change", () => document.querySelectorAll("figure.chart[data-state=live]").forEach(draw));
const cards = new ResizeObserver((entries) => {
  for (const { target } of entries)
    if (target.dataset.state === "live" && target.clientWidth && +target.dataset.width !== target.clientWidth) draw(target);
});
for (const figure of document.querySelectorAll("figure.chart")) cards.observe(figure);

for (const filter of document.querySelectorAll(".filter")) {
  const section = filter.closest(".experiment");
  filter.hidden = false;
  const room = () => section.style.setProperty("--filter", `${filter.offsetHeight}px`);
  new ResizeObserver(room).observe(filter);  // what a link leads to is not to lie under it
  filter.addEventListener("change", () => {
    const { without } = choice(filter);
    for (const row of section.querySelectorAll("[data-class]")) row.hidden = without.has(row.dataset.class);
    section.querySelectorAll("figure.chart[data-state=live]").forEach(draw);
  });
}
