// What is drawn: from the page's data and what the reader has chosen to Plotly's traces and layouts. Nothing here touches the page.
const byId = (id) => document.getElementById(id);
const readable = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); // Plotly reads some HTML
const WORDS = { update: "updates", sequences: "sequences", seconds: "seconds" };
const MANY = 20; // with more runs, points are not marked, and training is not drawn beside validation: one sees nothing, slowly
const state = { x: "update", y: "", logx: false, from: null, to: null, off: new Set() }; // off: labels of runs
let data = JSON.parse(byId("data").textContent);

// ---- colours
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const lineColour = (place) => (style(place).colour === "#000000" ? colour("--front") : style(place).colour);
const style = (place) => data.styles[place % data.styles.length];

// ---- layouts
function layoutOf(more) {
  const line = colour("--line"), front = colour("--front");
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: front, size: 12 }, showlegend: false,
    margin: { l: 50, r: 12, t: 26, b: 40 }, hovermode: "closest", hoverlabel: { namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: front }, ...more,
    xaxis: { ...axis, exponentformat: "SI", ...more.xaxis }, yaxis: { ...axis, exponentformat: "power", ...more.yaxis },
  };
}
const marksOf = (marks) => marks.map(([value, words]) => ({
  type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { color: colour("--soft"), width: 1, dash: "dot" },
  label: { text: readable(words), textposition: "start", yanchor: "bottom", font: { size: 10, color: colour("--soft") } },
}));

// ---- curves of runs
function points(columns, column) {
  const x = columns.x[state.x], found = [];
  column.v.forEach((value, place) => {
    const at = x[column.at ? column.at[place] : place];
    if (at !== null && at !== undefined) found.push([at, value]);
  });
  found.sort((a, b) => a[0] - b[0]);
  return { x: found.map((one) => one[0]), y: found.map((one) => one[1]) };
}
function curves(panel) {
  const traces = new Map(), shown = data.runs.filter((run) => !state.off.has(run.label)).length, many = shown > MANY;
  data.runs.forEach((run, place) => {
    if (state.off.has(run.label)) return;
    const kinds = Object.keys(run.columns).filter((kind) => Object.hasOwn(run.columns[kind].y, panel.name));
    for (const kind of kinds) {
      const training = kind === "update", lines = training || kind === "validation";
      const faint = training && kinds.includes("validation") && !panel.steps;
      if (faint && many) continue;
      const line = points(run.columns[kind], run.columns[kind].y[panel.name]);
      if (!line.x.length) continue;
      const marked = line.x.length === 1 || !lines || (!training && !many);
      const mode = !lines ? "markers" : marked ? "lines+markers" : "lines", own = lineColour(place), dash = style(place).dash;
      const name = readable(`${run.label}, ${training ? "training" : kind}`);
      // Many runs are one trace for each style, with a gap after every run: hundreds of traces are slow.
      const key = many ? [kind, faint, mode, own, dash].join() : traces.size, trace = traces.get(key);
      if (trace) {
        trace.x.push(null, ...line.x);
        trace.y.push(null, ...line.y);
        trace.text.push("", ...line.x.map(() => name));
        continue;
      }
      traces.set(key, {
        type: "scatter", ...line, text: line.x.map(() => name), name, mode, opacity: faint ? 0.4 : 1, marker: { size: 5, color: own },
        line: { color: own, dash, width: faint ? 1.2 : 1.8, shape: panel.steps ? "hv" : "linear" },
        hovertemplate: `%{text}<br>%{x:,} ${WORDS[state.x]}: %{y:.5~g}<extra></extra>`,
      });
    }
  });
  const log = state.y ? state.y === "log" : panel.log;
  const known = panel.least !== null && panel.most !== null && !log;
  const layout = layoutOf({
    uirevision: JSON.stringify([state.x, state.logx, state.from, state.to, log]), shapes: marksOf(panel.marks),
    xaxis: { title: { text: WORDS[state.x] }, type: state.logx ? "log" : "linear", ...rangeOf(traces) },
    yaxis: { title: { text: readable(panel.axis) }, type: log ? "log" : "linear", ...(known ? { range: [panel.least, panel.most] } : panel.least === 0 && !log ? { rangemode: "tozero" } : {}) },
  });
  return { traces: [...traces.values()], layout };
}

function rangeOf(traces) { // what the reader asked for, and where only one end is given, the other end of all curves
  if (state.from === null && state.to === null) return { autorange: true, rangemode: "tozero" };
  let low = Infinity, high = -Infinity;
  for (const { x } of traces.values()) for (const value of x) {
    if (value === null || (state.logx && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const ends = [state.from ?? (state.logx ? low : Math.min(0, low)), state.to ?? high];
  return { autorange: false, range: state.logx ? ends.map(Math.log10) : ends };
}

// ---- curves of studies
function study(panel) {
  const traces = [], shape = panel.steps ? "hv" : "linear";
  for (const curve of panel.curves) {
    const own = lineColour(curve.place), name = readable(curve.label), group = curve.label;
    if (curve.low) {
      const band = { type: "scatter", mode: "lines", x: curve.lines[0][0], legendgroup: group, showlegend: false, hoverinfo: "skip", line: { width: 0, shape } };
      traces.push({ ...band, y: curve.low });
      traces.push({ ...band, y: curve.high, fill: "tonexty", fillcolor: own + "2e" });
    }
    curve.lines.forEach(([x, y], place) => traces.push({
      type: "scatter", mode: x.length === 1 ? "markers" : panel.points ? "lines+markers" : "lines", x, y, name, legendgroup: group, showlegend: !place,
      line: { color: own, dash: style(curve.place).dash, width: 1.8, shape }, marker: { color: own },
      hovertemplate: "%{fullData.name}<br>%{x:,}: %{y:.5~g}<extra></extra>",
    }));
  }
  const layout = layoutOf({
    showlegend: true, legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", font: { size: 11 } }, shapes: marksOf(panel.marks),
    xaxis: { title: { text: readable(panel.x) } },
    yaxis: { title: { text: readable(panel.y) }, ...(panel.zero ? (panel.top === null ? { rangemode: "tozero" } : { range: [0, panel.top] }) : {}) },
  });
  return { traces, layout };
}

// ---- pictures of one run
function recovered(level) {
  const traces = [{
    type: "heatmap", x: level.x[state.x].map(String), y: level.indices.map(String), z: level.z, zmin: 0, zmax: 1, colorscale: "Cividis", reversescale: true,
    hovertemplate: `%{x} ${WORDS[state.x]}<br>%{y} ticks back: %{z:.4~g}<extra></extra>`, colorbar: { thickness: 12, tickvals: [0, 0.5, 1], ticktext: ["0 all", "0.5", "1 guess"] },
  }];
  return { traces, layout: layoutOf({ xaxis: { title: { text: WORDS[state.x] }, type: "category", nticks: 8 }, yaxis: { title: { text: "ticks back" }, type: "category", nticks: 15 } }) };
}
function confusion({ classes, counts }) {
  const names = classes.map(readable);
  const shares = counts.map((row) => { const sum = row.reduce((a, b) => a + b, 0); return row.map((count) => (sum ? count / sum : 0)); });
  const traces = [{
    type: "heatmap", x: names, y: names, z: shares, text: counts.map((row) => row.map(String)), zmin: 0, zmax: 1, colorscale: "Cividis", colorbar: { thickness: 12 },
    texttemplate: classes.length <= 20 ? "%{text}" : "", hovertemplate: "%{y} taken for %{x}: %{text} (%{z:.1%})<extra></extra>",
  }];
  return { traces, layout: layoutOf({ xaxis: { title: { text: "taken for" }, type: "category" }, yaxis: { title: { text: "class" }, type: "category", autorange: "reversed" } }) };
}
