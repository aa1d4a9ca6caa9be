// Where the nodes of the plan are drawn, and the lines between them.
import dagre from '@dagrejs/dagre';

export const WIDTH = 208;
export const HEIGHT = 84;
const MARGIN = 14;
/** Text is not drawn smaller than this for the sake of a graph that fits. */
const LEAST_SCALE = 0.8;

function place(plan, direction) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({
    rankdir: direction,
    nodesep: 28,
    ranksep: direction === 'LR' ? 68 : 46,
    marginx: MARGIN,
    marginy: MARGIN,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of plan.nodes) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { from, to } of plan.edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const { width, height } = graph.graph();
  const nodes = plan.nodes.map((node) => ({ ...node, ...round(graph.node(node.id)) }));
  const edges = plan.edges.map((edge) => ({ ...edge, points: sideToSide(graph, edge, direction) }));
  return { direction, width: Math.ceil(width), height: Math.ceil(height), nodes, edges };
}

/** From the middle of one node's side to that of the other's, through the points between them. */
function sideToSide(graph, { from, to }, direction) {
  const [along, half] = direction === 'LR' ? ['x', WIDTH / 2] : ['y', HEIGHT / 2];
  const [start, end] = [round(graph.node(from)), round(graph.node(to))];
  start[along] += half;
  end[along] -= half;
  const inner = graph.edge(from, to).points.slice(1, -1).map(round);
  const isAdjacent = inner.length <= 1;
  return [start, ...(isAdjacent ? [{ x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 }] : inner), end];
}

const round = ({ x, y }) => ({ x: Math.round(x), y: Math.round(y) });

/** From left to right where there is room for it, otherwise from top to bottom. */
export function layout(plan, room) {
  const across = place(plan, 'LR');
  const chosen = across.width * LEAST_SCALE <= room ? across : place(plan, 'TB');
  const scale = Math.min(1, Math.max(LEAST_SCALE, room / chosen.width));
  return { ...chosen, scale };
}

/** The plan with its nodes in the order in which rows come to them. */
export function ordered(plan) {
  const [order, seen] = [[], new Set()];
  const visit = (node) => {
    if (!node || seen.has(node)) return;
    seen.add(node);
    for (const edge of plan.edges) if (edge.to === node.id) visit(plan.nodes.find(({ id }) => id === edge.from));
    order.push(node);
  };
  plan.nodes.forEach(visit);
  return { ...plan, nodes: order };
}

/** A smooth line through the points. */
export function path(points, direction) {
  const [first, last] = [points[0], points.at(-1)];
  if (points.length === 3) {
    const bend =
      direction === 'LR' ? [points[1].x, first.y, points[1].x, last.y] : [first.x, points[1].y, last.x, points[1].y];
    return `M${first.x} ${first.y}C${bend.join(' ')} ${last.x} ${last.y}`;
  }
  let d = `M${first.x} ${first.y}`;
  for (let i = 1; i < points.length - 1; i += 1) {
    const [here, next] = [points[i], points[i + 1]];
    const end = i === points.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    d += `Q${here.x} ${here.y} ${end.x} ${end.y}`;
  }
  return d;
}

/**
 * The next node when an arrow key is pressed: along the edges in the direction of the layout, across them to the
 * nearest one of the rank.
 */
export function neighbour({ nodes, edges, direction }, id, key) {
  const along = direction === 'LR' ? ['ArrowLeft', 'ArrowRight'] : ['ArrowUp', 'ArrowDown'];
  if (key === along[0]) return edges.find((edge) => edge.to === id)?.from;
  if (key === along[1]) return edges.find((edge) => edge.from === id)?.to;
  const here = nodes.find((node) => node.id === id);
  const [rank, across] = direction === 'LR' ? ['x', 'y'] : ['y', 'x'];
  const sign = key === 'ArrowUp' || key === 'ArrowLeft' ? -1 : 1;
  const others = nodes.filter((node) => node[rank] === here[rank] && sign * (node[across] - here[across]) > 0);
  return others.sort((a, b) => sign * (a[across] - b[across]))[0]?.id;
}
