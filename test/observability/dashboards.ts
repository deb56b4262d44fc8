import { readdirSync, readFileSync } from 'node:fs'

/** A dashboard of the chart. Its source is the JSON file, in the form in which Grafana exports it. */
export interface Dashboard {
  /** Without its ending. */
  readonly file: string
  readonly json: DashboardJson
  readonly title: string
  readonly rows: readonly Row[]
}

export interface Row {
  readonly title: string
  readonly collapsed: boolean
  readonly panels: readonly Panel[]
}

/** What tests and pictures read of a panel. */
export interface Panel {
  readonly title: string
  readonly description: string
  readonly kind: string
  /** Grafana's name of the unit. */
  readonly unit: string
  readonly queries: readonly Query[]
  /** Columns, of 24. */
  readonly width: number
  readonly stacked: boolean
  /** End of the scale, for ratios and states. */
  readonly max: number | undefined
  /** Colours of a value, each from its own limit on; the first has no limit. */
  readonly steps: readonly Step[]
  /** Section of the runbooks for this panel: `#posternkeystoreunavailable`. */
  readonly runbook: string | undefined
}

export interface Query {
  readonly expr: string
  readonly legend: string
}

export interface Step {
  readonly color: string
  readonly value: number | null
}

/** The parts of Grafana's classic JSON that the tests read. */
export interface DashboardJson {
  readonly uid: string
  readonly title: string
  readonly description: string
  readonly editable: boolean
  readonly schemaVersion: number
  readonly templating: { readonly list: readonly VariableJson[] }
  readonly annotations: { readonly list: readonly { readonly name: string; readonly expr: string }[] }
  readonly links: readonly LinkJson[]
  readonly panels: readonly PanelJson[]
}

export interface VariableJson {
  readonly name: string
  readonly type: string
  readonly hide?: number
  readonly definition?: string
  readonly query: string | { readonly query: string }
  readonly allValue?: string
}

export interface LinkJson {
  readonly title: string
  readonly url?: string
}

export interface PanelJson {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description: string
  readonly datasource: unknown
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets: readonly TargetJson[]
  readonly links: readonly LinkJson[]
  readonly fieldConfig: { readonly defaults: FieldJson }
  /** Of a row: whether it is folded, and then its panels. Those of an open row follow it. */
  readonly collapsed?: boolean
  readonly panels?: readonly PanelJson[]
}

export interface TargetJson {
  readonly refId: string
  readonly datasource: unknown
  readonly expr: string
  readonly legendFormat: string
  readonly format: string
}

interface FieldJson {
  readonly unit: string
  readonly min?: number
  readonly max?: number
  readonly thresholds: { readonly steps: readonly Step[] }
  readonly custom: { readonly stacking?: { readonly mode: string } }
}

const DIRECTORY = new URL('../../helm/dashboards/', import.meta.url)

export const DASHBOARDS: readonly Dashboard[] = readdirSync(DIRECTORY)
  .filter(name => name.endsWith('.json'))
  .sort()
  .map(name => {
    // `dashboards.test.ts` checks what tests and pictures rely on.
    const json = JSON.parse(readFileSync(new URL(name, DIRECTORY), 'utf8')) as DashboardJson
    return { file: name.replace('.json', ''), json, title: json.title, rows: rowsOf(json) }
  })

export const PANELS = DASHBOARDS.flatMap(dashboard =>
  dashboard.rows.flatMap(row => row.panels.map(panel => ({ dashboard, row, panel }))),
)

/** The query by which every dashboard marks firing alerts. */
export const FIRING =
  DASHBOARDS[0]?.json.annotations.list.find(({ name }) => name === 'Alerts')?.expr ?? 'no annotation "Alerts"'

export function pictureOf({ file }: Dashboard): URL {
  return new URL(`${file}.svg`, DIRECTORY)
}

/** The panels that are not rows, folded ones included. */
export function panelsOf({ panels }: DashboardJson): readonly PanelJson[] {
  return panels.flatMap(panel => [panel, ...(panel.panels ?? [])]).filter(({ type }) => type !== 'row')
}

function rowsOf({ panels }: DashboardJson): Row[] {
  return panels.flatMap((row, index): Row[] => {
    if (row.type !== 'row') return []
    const after = panels.slice(index + 1)
    const end = after.findIndex(({ type }) => type === 'row')
    const open = end === -1 ? after : after.slice(0, end)
    const own = [...(row.panels ?? []), ...open]
    return [{ title: row.title, collapsed: row.collapsed === true, panels: own.map(panelOf) }]
  })
}

function panelOf({ title, description, type, gridPos, targets, links, fieldConfig }: PanelJson): Panel {
  const { unit, max, thresholds, custom } = fieldConfig.defaults
  return {
    title,
    description,
    kind: type,
    unit,
    queries: targets.map(({ expr, legendFormat }) => ({ expr, legend: legendFormat })),
    width: gridPos.w,
    stacked: custom.stacking?.mode === 'normal',
    max,
    steps: thresholds.steps,
    runbook: links.find(link => link.title === 'Runbook')?.url?.replace('$runbooks', ''),
  }
}
