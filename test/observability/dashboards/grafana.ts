import { type Dashboard, type Panel, type Query, SELECTED } from './dashboard.ts'

const SCHEMA_VERSION = 39
const COLUMNS = 24
const DATASOURCE = { type: 'prometheus', uid: '$datasource' }
const STAT_HEIGHT = 5
const GRAPH_HEIGHT = 8

/** Converts a dashboard to the classic JSON format, which the sidecar and Grafana from 11 on read. */
export function toGrafana(dashboard: Dashboard): object {
  return {
    uid: dashboard.uid,
    title: dashboard.title,
    description: dashboard.description,
    tags: ['postern'],
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: false,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    timezone: 'browser',
    templating: { list: variablesOf(dashboard) },
    annotations: { list: ANNOTATIONS },
    links: [
      {
        type: 'dashboards',
        title: 'Postern',
        tags: ['postern'],
        asDropdown: true,
        includeVars: true,
        keepTime: true,
      },
      { type: 'link', title: 'Runbooks', url: '$runbooks', targetBlank: true, icon: 'doc' },
      // Passes the selection on: `var-pod=…`, `from=…`.
      ...['Logs', 'Traces'].map(title => ({
        type: 'link',
        title,
        url: `$${title.toLowerCase()}`,
        targetBlank: true,
        icon: 'external link',
        includeVars: true,
        keepTime: true,
      })),
    ],
    panels: layOut(dashboard),
  }
}

/** Placeholders: the chart replaces them with configured addresses, or removes the links. */
const LINK_TARGETS = {
  runbooks: 'https://postern.example/runbooks/alerts.md',
  logs: 'https://postern.example/logs',
  traces: 'https://postern.example/traces',
}

const VERSION_CHANGE = `max by (version) (postern_build_info{${SELECTED}}) unless max by (version) (postern_build_info{${SELECTED}} offset 5m)`
/** Without `job`: the alert about the autoscaler has none. */
export const FIRING =
  'ALERTS{cluster=~"$cluster",namespace=~"$namespace",alertname=~"Postern.*",alertstate="firing",severity=~"critical|warning"}'

const ANNOTATIONS = [
  annotation('New version', VERSION_CHANGE, '{{version}}', 'blue'),
  annotation('Alerts', FIRING, '{{alertname}}', 'red'),
]

function annotation(name: string, expr: string, titleFormat: string, iconColor: string): object {
  return {
    name,
    datasource: DATASOURCE,
    enable: name === 'Alerts',
    expr,
    titleFormat,
    iconColor,
    step: '60s',
  }
}

function variablesOf(dashboard: Dashboard): object[] {
  const chosen = ['cluster', 'namespace', 'job', 'pod']
  const where = (index: number) =>
    chosen
      .slice(0, index)
      .map(name => `${name}=~"$${name}"`)
      .join(',')
  return [
    { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', hide: 0 },
    ...chosen.map((name, index) =>
      queryVariable(name, `label_values(postern_build_info{${where(index)}}, ${name})`),
    ),
    ...(dashboard.byRoute
      ? [queryVariable('route', `label_values(postern_http_requests_total{${where(4)}}, route)`)]
      : []),
    ...Object.entries(LINK_TARGETS).map(([name, query]) => ({ name, type: 'constant', query, hide: 2 })),
  ]
}

function queryVariable(name: string, query: string): object {
  return {
    name,
    label: name[0]?.toUpperCase() + name.slice(1),
    type: 'query',
    datasource: DATASOURCE,
    definition: query,
    query: { query, refId: name },
    // Also matches series without the label: not every Prometheus sets `cluster`.
    allValue: '.*',
    includeAll: true,
    multi: true,
    current: { selected: true, text: ['All'], value: ['$__all'] },
    refresh: 2,
    sort: 1,
  }
}

function layOut({ rows, openRows = rows.length }: Dashboard): object[] {
  let y = 0
  let id = 0
  return rows.flatMap((row, index) => {
    const collapsed = index >= openRows
    const header = { id: ++id, type: 'row', title: row.title, collapsed }
    const gridPos = { x: 0, y: y++, w: COLUMNS, h: 1 }
    const { cells, height } = cellsOf(row.panels)
    const panels = row.panels.map((panel, at) => {
      const cell = cells[at] ?? { x: 0, y: 0, w: 0, h: 0 }
      return { id: ++id, gridPos: { ...cell, y: y + cell.y }, ...panelOf(panel) }
    })
    // Grafana keeps the panels of a folded row in the row, and moves what follows down when it opens.
    if (collapsed) return [{ ...header, panels, gridPos }]
    y += height
    return [{ ...header, panels: [], gridPos }, ...panels]
  })
}

/** Places panels side by side, in as many lines as they need, from y = 0. */
function cellsOf(panels: readonly Panel[]) {
  const onlyStats = panels.every(({ kind }) => kind === 'stat')
  const h = onlyStats ? STAT_HEIGHT : GRAPH_HEIGHT
  let x = 0
  let y = 0
  const cells = panels.map(({ width: w }) => {
    if (x + w > COLUMNS) {
      x = 0
      y += h
    }
    const cell = { x, y, w, h }
    x += w
    return cell
  })
  return { cells, height: panels.length === 0 ? 0 : y + h }
}

function panelOf(panel: Panel): object {
  return {
    type: panel.kind,
    title: panel.title,
    description: panel.description,
    datasource: DATASOURCE,
    links:
      panel.runbook === undefined
        ? []
        : [{ title: 'Runbook', url: `$runbooks${panel.runbook}`, targetBlank: true }],
    targets: panel.queries.map((query, index) => targetOf(panel, query, index)),
    fieldConfig: { defaults: defaultsOf(panel), overrides: [] },
    options: optionsOf(panel),
  }
}

function targetOf(panel: Panel, { expr, legend }: Query, index: number): object {
  const heatmap = panel.kind === 'heatmap'
  return {
    refId: String.fromCharCode(65 + index),
    datasource: DATASOURCE,
    expr,
    legendFormat: legend,
    editorMode: 'code',
    range: true,
    instant: false,
    format: heatmap ? 'heatmap' : 'time_series',
  }
}

function defaultsOf({ kind, unit, max, thresholds, stacked }: Panel): object {
  return {
    unit,
    min: kind === 'timeseries' && thresholds === undefined ? 0 : undefined,
    ...(max === undefined ? {} : { max }),
    color: { mode: kind === 'stat' ? 'thresholds' : 'palette-classic' },
    thresholds: { mode: 'absolute', steps: stepsOf(thresholds) },
    custom:
      kind === 'timeseries'
        ? {
            lineWidth: 1,
            fillOpacity: stacked ? 40 : 8,
            showPoints: 'never',
            spanNulls: false,
            stacking: { mode: stacked ? 'normal' : 'none', group: 'A' },
          }
        : {},
  }
}

function stepsOf(thresholds: readonly [number, number] | undefined): object[] {
  if (thresholds === undefined) return [{ color: 'blue', value: null }]
  const [warning, alarm] = thresholds
  if (warning <= alarm) {
    return [
      { color: 'green', value: null },
      { color: 'orange', value: warning },
      { color: 'red', value: alarm },
    ]
  }
  return [
    { color: 'red', value: null },
    { color: 'orange', value: alarm },
    { color: 'green', value: warning },
  ]
}

function optionsOf({ kind, unit }: Panel): object {
  switch (kind) {
    case 'stat':
      return {
        reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
        colorMode: 'value',
        graphMode: 'area',
        textMode: 'auto',
      }
    case 'heatmap':
      return {
        calculate: false,
        yAxis: { unit },
        color: { mode: 'scheme', scheme: 'Blues', steps: 64 },
        cellGap: 1,
      }
    case 'timeseries':
      return {
        legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
        tooltip: { mode: 'multi', sort: 'desc' },
      }
  }
}
