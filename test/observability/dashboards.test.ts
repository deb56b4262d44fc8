import { describe, expect, test } from 'vitest'
import { catalogue, ourMetrics } from './catalogue.ts'
import { DASHBOARDS, type DashboardJson, FIRING, PANELS, type PanelJson, panelsOf } from './dashboards.ts'
import { partsOf } from './promql.ts'
import { alerts } from './rule-files.ts'

const DATASOURCE = { type: 'prometheus', uid: '$datasource' }
const COLUMNS = 24
const UNITS = ['reqps', 'ops', 'percentunit', 's', 'bytes', 'Bps', 'short', 'none', 'dateTimeFromNow']
const SELECTION = ['cluster', 'namespace', 'job', 'pod']
/** Filled in by the chart, which removes the links that have no address. */
const LINK_TARGETS = ['runbooks', 'logs', 'traces']

const everyPanel = DASHBOARDS.flatMap(({ file, json }) =>
  panelsOf(json).map(panel => [`${file}: ${panel.title}`, panel, json] as const),
)
const queries = PANELS.flatMap(({ dashboard, panel }) =>
  panel.queries.map(({ expr }) => [`${dashboard.file}: ${panel.title}`, expr] as const),
)
const queryOf = ({ query }: DashboardJson['templating']['list'][number]) =>
  typeof query === 'string' ? query : query.query

test('there is a dashboard for gateways, for keys and console, and for objectives', () => {
  expect(DASHBOARDS.map(({ file, json }) => [file, json.uid])).toEqual([
    ['gateway', 'postern-gateway'],
    ['keys-and-console', 'postern-keys'],
    ['objectives', 'postern-objectives'],
  ])
})

describe.each(DASHBOARDS.map(dashboard => [dashboard.file, dashboard] as const))(
  '%s.json',
  (_, dashboard) => {
    const { json, rows } = dashboard
    const variables = json.templating.list
    const names = variables.map(({ name }) => name)

    test('looks and behaves like the other dashboards', () => {
      const shared = ({ uid, title, description, panels, templating, ...rest }: DashboardJson) => ({
        ...rest,
        variables: templating.list.filter(({ name }) => name !== 'route'),
      })
      expect(shared(json)).toEqual(shared((DASHBOARDS[0] as typeof dashboard).json))
      expect(json).toMatchObject({ editable: false, schemaVersion: 39, tags: ['postern'], refresh: '30s' })
      expect(json.title).toMatch(/^Postern \/ /)
      expect(json.description).not.toBe('')
    })

    test('asks for a data source, and offers only the values that fit the variables before', () => {
      const offered = names.filter(name => !LINK_TARGETS.includes(name))
      expect(offered.slice(0, 5)).toEqual(['datasource', ...SELECTION])
      expect(['', 'route']).toContain(offered.slice(5).join())
      for (const variable of variables.filter(({ type }) => type === 'query')) {
        const before = [...SELECTION, 'route'].slice(0, [...SELECTION, 'route'].indexOf(variable.name))
        const metric = variable.name === 'route' ? 'postern_http_requests_total' : 'postern_build_info'
        const within = before.map(name => `${name}=~"$${name}"`).join(',')
        expect(queryOf(variable)).toBe(`label_values(${metric}{${within}}, ${variable.name})`)
        // `.*` also matches series without the label: not every Prometheus sets `cluster`.
        expect(variable).toMatchObject({
          allValue: '.*',
          includeAll: true,
          multi: true,
          datasource: DATASOURCE,
          definition: queryOf(variable),
        })
      }
    })

    test('links to runbooks, logs and traces by hidden variables, which the chart replaces', () => {
      const hidden = variables.filter(({ name }) => LINK_TARGETS.includes(name))
      expect(hidden.map(({ name, type, hide }) => [name, type, hide])).toEqual(
        LINK_TARGETS.map(name => [name, 'constant', 2]),
      )
      expect(hidden.filter(variable => !queryOf(variable).startsWith('https://postern.example/'))).toEqual([])
      expect(json.links.flatMap(({ url }) => url ?? [])).toEqual(LINK_TARGETS.map(name => `$${name}`))
    })

    test('marks new versions and firing alerts', () => {
      const marks = json.annotations.list
      expect(marks.map(({ name }) => name)).toEqual(['New version', 'Alerts'])
      expect(marks[1]?.expr).toBe(FIRING)
      expect(partsOf(FIRING).selectors.map(({ metric }) => metric)).toEqual(['ALERTS'])
    })

    test('has no overlapping panels, no hole beside one, and no two with one id', () => {
      const { panels } = json
      for (const shown of [panels, ...panels.map(panel => panel.panels ?? [])]) {
        const cells = shown.flatMap(({ gridPos: { x, y, w, h } }) =>
          Array.from({ length: w * h }, (_cell, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
        )
        expect(new Set(cells).size).toBe(cells.length)
        expect(shown.filter(({ gridPos: { x, w } }) => x + w > COLUMNS)).toEqual([])
        const lines = Map.groupBy(shown, ({ gridPos: { y } }) => y)
        for (const line of lines.values()) {
          const columns = line.reduce((sum, { gridPos: { w } }) => sum + w, 0)
          expect(columns, `the line of ${line[0]?.title} leaves no hole`).toBe(COLUMNS)
        }
        // Pictures and readers of the file follow its order.
        const order = (panel: PanelJson) => panel.gridPos.y * COLUMNS + panel.gridPos.x
        expect(shown).toEqual(shown.toSorted((one, other) => order(one) - order(other)))
      }
      const ids = panels.flatMap(panel => [panel, ...(panel.panels ?? [])]).map(({ id }) => id)
      expect(new Set(ids).size).toBe(ids.length)
      expect(panels[0]?.type, 'each panel is in a row').toBe('row')
    })

    test('keeps the panels of folded rows in the row, as Grafana does', () => {
      for (const [index, { type, collapsed, panels = [] }] of json.panels.entries()) {
        if (type !== 'row') continue
        const next = json.panels[index + 1]?.type ?? 'row'
        expect([panels.length > 0, next === 'row']).toEqual(collapsed ? [true, true] : [false, false])
      }
      expect(rows.filter(({ panels }) => panels.length === 0)).toEqual([])
    })
  },
)

test('the gateway’s opens with its first two rows; the others load when they are unfolded', () => {
  const [gateway, ...others] = DASHBOARDS
  expect(gateway?.rows.map(({ collapsed }) => collapsed)).toEqual(gateway?.rows.map((_, index) => index >= 2))
  expect(others.flatMap(({ rows }) => rows.filter(({ collapsed }) => collapsed))).toEqual([])
})

test.each(everyPanel)(
  '%s says what it shows, in which unit, and asks the chosen data source',
  (_, panel, json) => {
    const { description, datasource, targets, links, type, fieldConfig } = panel
    const { unit, thresholds } = fieldConfig.defaults
    expect(description).toMatch(/[.!]$/)
    expect(UNITS).toContain(unit)
    expect(['timeseries', 'stat', 'heatmap']).toContain(type)
    expect([datasource, ...targets.map(target => target.datasource)]).toEqual(
      [panel, ...targets].map(() => DATASOURCE),
    )
    expect(targets.map(({ refId }) => refId)).toEqual(
      targets.map((_target, at) => String.fromCharCode(65 + at)),
    )
    expect(targets.filter(({ legendFormat }) => legendFormat === '')).toEqual([])
    expect(targets.map(({ format }) => format)).toEqual(
      targets.map(() => (type === 'heatmap' ? 'heatmap' : 'time_series')),
    )
    expect(
      links.filter(({ title, url }) => title !== 'Runbook' || !/^\$runbooks#[a-z]+$/.test(url ?? '')),
    ).toEqual([])
    const limits = thresholds.steps.map(({ value }) => value)
    expect(limits[0]).toBeNull()
    const rest = limits.slice(1).map(Number)
    expect(rest).toEqual(rest.toSorted((one, other) => one - other))
    const names = json.templating.list.map(({ name }) => name)
    const used = targets.flatMap(({ expr }) => [...expr.matchAll(/\$(\w+)/g)].map(([, name = '']) => name))
    expect(used.filter(name => !name.startsWith('__') && !names.includes(name))).toEqual([])
  },
)

/** The variables by which a query of this metric is limited to what is chosen. */
function chosenFor(metric: string): readonly string[] {
  if (metric === 'ALERTS' || metric.startsWith('kube_horizontalpodautoscaler_'))
    return ['cluster', 'namespace']
  // Exporters of Kubernetes have jobs of their own.
  if (/^(?:kube|container)_/.test(metric)) return ['cluster', 'namespace', 'pod']
  // Recorded series are sums over pods.
  return metric.startsWith('job:') ? ['cluster', 'namespace', 'job'] : SELECTION
}

test.each(queries)('%s shows only what is chosen at the top of the dashboard', (_, expr) => {
  for (const { metric, labels } of partsOf(expr).selectors) {
    expect(labels, metric).toEqual(expect.arrayContaining([...chosenFor(metric)]))
  }
  const matchers = [...expr.matchAll(/\b(cluster|namespace|job|pod)(=~|!~|!=|=)("[^"]*")/g)]
  expect(matchers.map(([text]) => text)).toEqual(matchers.map(([, name]) => `${name}=~"$${name}"`))
})

test('requests are limited to the chosen route wherever a route can be chosen', () => {
  const byRoute = PANELS.filter(({ dashboard: { json } }) =>
    json.templating.list.some(({ name }) => name === 'route'),
  ).flatMap(({ panel }) => panel.queries.map(({ expr }) => expr))
  const requests = byRoute.flatMap(expr => expr.match(/postern_http_requests_total\{[^}]*\}/g) ?? [])
  expect(requests.length).toBeGreaterThan(0)
  expect(requests.filter(selector => !selector.includes('route=~"$route"'))).toEqual([])
})

test('counters are drawn only as rates, over windows that are long enough', () => {
  const counters = ourMetrics.filter(name => name.endsWith('_total'))
  for (const [, expr] of queries) {
    for (const name of counters.filter(counter => expr.includes(counter))) {
      expect(expr).toMatch(new RegExp(`(rate|increase)\\(${name}`))
    }
    expect([...expr.matchAll(/\brate\([^[]*\[([^\]]*)\]/g)].map(([, window]) => window)).toEqual(
      [...expr.matchAll(/\brate\(/g)].map(() => '$__rate_interval'),
    )
  }
})

describe('the line of an alert’s threshold is where the alert has it', () => {
  const drawn = PANELS.flatMap(({ panel: { title, queries: own, runbook } }) =>
    own.flatMap(({ expr }) => {
      const limit = /^vector\(([\d.]+)\)$/.exec(expr)?.[1]
      const others = own.map(query => query.expr)
      return limit === undefined ? [] : [[title, limit, runbook?.slice(1), others] as const]
    }),
  )

  test('in each panel of burn rates', () => {
    expect(drawn.length).toBeGreaterThanOrEqual(5)
  })

  test.each(drawn)('%s: %s', (_, limit, runbook, own) => {
    const alert = alerts.find(({ alert: name }) => name.toLowerCase() === runbook)
    const rates = own.flatMap(expr => partsOf(expr).selectors.map(({ metric }) => metric))
    expect(rates.filter(metric => !catalogue.has(metric))).toEqual([])
    for (const metric of rates) {
      const limits = [...(alert?.expr ?? '').matchAll(new RegExp(`${metric}\\{[^}]*\\} > ([\\d.]+)`, 'g'))]
      expect(limits.map(([, value]) => value)).toContain(limit)
    }
  })
})
