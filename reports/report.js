// Draws each chart again from its specification, with tooltips, once it comes near the screen.
// Until then, and wherever this fails or scripts are off, the static picture stays.

const narrow = matchMedia("(max-width: 700px)");

function fit(spec, width) {
  // On a narrow screen: one panel below the other, as wide as the screen allows.
  if (!narrow.matches || spec.facet?.row) return spec;  // a grid of pictures keeps its shape
  const out = structuredClone(spec);
  if (out.facet) {
    out.columns = 1;
    out.spec.width = width - 80;
    out.config.legend.columns = 1;
  } else {
    out.config.axis.labelLimit = 100;
    out.width = width - 170;  // room for the labels on the left and the numbers on the right
  }
  return out;
}

async function draw(figure) {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const live = figure.querySelector(".live");
  live.hidden = false;
  const width = Math.max(live.clientWidth, 280);
  try {
    await window.vegaEmbed(live, fit(spec, width), {
      renderer: "svg",
      actions: { export: true, source: false, compiled: false, editor: false },
      tooltip: { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" },
    });
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", figure.querySelector(".static").getAttribute("aria-label"));
    figure.dataset.state = "live";
  } catch (error) {
    live.hidden = true;
    console.error(error);
  }
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
narrow.addEventListener("change", () =>
  document.querySelectorAll("figure.chart[data-state=live]").forEach(draw),
);
