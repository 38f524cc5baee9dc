/* The layout of a graph and the predecessors and successors of each node, by cytoscape with dagre; loaded only when a
   graph is shown. Used without its renderer: nodes are ordinary elements, so they can be focused and read aloud. */
import cytoscape, { type Core } from "cytoscape";
import dagre from "cytoscape-dagre";

cytoscape.use(dagre);

export type Direction = "across" | "down";

export interface Edge {
  source: string;
  target: string;
  label?: string;
  /** An edge back to an earlier node; ignored by the layout, which needs a graph without cycles. */
  back?: boolean;
  tone?: string;
}

export interface Place {
  x: number;
  y: number;
}

export interface Layout {
  places: Map<string, Place>;
  width: number;
  height: number;
  /** A node with all its predecessors and successors. */
  related(id: string): Set<string>;
}

export interface Size {
  width: number;
  height: number;
}

export function arrange(ids: readonly string[], edges: readonly Edge[], direction: Direction, size: Size): Layout {
  const known = new Set(ids);
  const forward = edges.filter((edge) => !edge.back && known.has(edge.source) && known.has(edge.target));
  const graph: Core = cytoscape({
    headless: true,
    styleEnabled: true,
    elements: [
      ...ids.map((id) => ({ data: { id } })),
      ...forward.map(({ source, target }, place) => ({ data: { id: ` ${place}`, source, target } })),
    ],
    style: [{ selector: "node", style: { width: size.width, height: size.height, shape: "rectangle" } }],
  });
  const across = direction === "across";
  graph
    .layout({
      name: "dagre",
      rankDir: across ? "LR" : "TB",
      nodeSep: across ? 18 : 24,
      rankSep: across ? 56 : 40,
      animate: false,
      fit: false,
    } as never)
    .run();
  const box = graph.nodes().boundingBox({});
  const places = new Map<string, Place>();
  for (const node of graph.nodes()) {
    const { x, y } = node.position();
    places.set(node.id(), { x: x - box.x1 - size.width / 2, y: y - box.y1 - size.height / 2 });
  }
  const related = (id: string): Set<string> => {
    const node = graph.getElementById(id);
    const all = node.predecessors().union(node.successors()).union(node).nodes();
    return new Set(all.map((one) => one.id()));
  };
  return { places, width: box.w, height: box.h, related };
}
