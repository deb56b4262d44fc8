import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { settings } from '../../src/config/settings.ts'
import { catalogue, OF_KUBERNETES, ourMetrics, TARGET_LABELS } from './catalogue.ts'
import { PANELS } from './dashboards.ts'
import { partsOf } from './promql.ts'
import { alerts, RUNBOOK_FILES, recordings, rules } from './rule-files.ts'

const panels = PANELS.map(({ dashboard, row, panel }) => ({
  ...panel,
  where: `${dashboard.title} › ${row.title}`,
}))
const queries = [
  ...rules.map(({ record, alert, expr }) => ({ where: record ?? alert ?? '', expr, legend: '' })),
  ...panels.flatMap(({ where, title, queries: own }) =>
    own.map(query => ({ where: `${where} › ${title}`, ...query })),
  ),
]
const RUNBOOKS = 'https://postern.example/runbooks/'
const runbooks = RUNBOOK_FILES.map(file => ({
  name: file.slice(file.lastIndexOf('/') + 1),
  text: readFileSync(file, 'utf8'),
}))
const anchors = runbooks.flatMap(({ name, text }) =>
  [...text.matchAll(/^### (.+)$/gm)].map(([, heading = '']) => `${name}#${heading.toLowerCase()}`),
)

describe('metrics, rules and dashboards use the same names', () => {
  test.each(queries.map(query => [query.where, query]))('%s', (_, { expr, legend }) => {
    const { selectors, grouping } = partsOf(expr)
    expect(selectors.map(({ metric }) => metric).filter(name => !catalogue.has(name))).toEqual([])
    for (const { metric, labels } of selectors) {
      const known = [...(catalogue.get(metric) ?? []), ...TARGET_LABELS]
      expect(labels.filter(label => !known.includes(label))).toEqual([])
    }
    const known = [...selectors.flatMap(({ metric }) => catalogue.get(metric) ?? []), ...TARGET_LABELS]
    const shown = [...legend.matchAll(/\{\{(.+?)\}\}/g)].map(([, label = '']) => label)
    expect([...grouping, ...shown].filter(label => !known.includes(label))).toEqual([])
  })

  test('a legend uses only labels by which its query groups', () => {
    const lost = panels.flatMap(({ title, queries: own }) =>
      own.filter(({ expr, legend }) => {
        const shown = [...legend.matchAll(/\{\{(.+?)\}\}/g)].map(([, label = '']) => label)
        return shown.some(label => !partsOf(expr).grouping.includes(label)) && title !== ''
      }),
    )
    expect(lost).toEqual([])
  })

  const used = new Set(queries.flatMap(({ expr }) => partsOf(expr).selectors.map(({ metric }) => metric)))

  test('every metric has a panel (helm/dashboards) or an alert (helm/alerts)', () => {
    const seen = (name: string) => ['', '_bucket', '_count'].some(suffix => used.has(name + suffix))
    expect(ourMetrics.filter(name => !seen(name))).toEqual([])
  })

  test('every metric of Kubernetes in the catalogue is used, and is not one of Postern', () => {
    const names = OF_KUBERNETES.map(([name]) => name)
    expect(names.filter(name => !used.has(name) || name.startsWith('postern_'))).toEqual([])
  })

  test('every recording rule is used', () => {
    expect(recordings.map(({ record }) => record).filter(name => !used.has(name))).toEqual([])
  })
})

describe('runbooks', () => {
  test('there is a section for each alert, and an alert for each section', () => {
    const named = alerts.map(({ annotations }) => annotations['runbook_url'])
    expect([...new Set(named)].sort()).toEqual(anchors.map(anchor => RUNBOOKS + anchor).sort())
    for (const { alert, annotations } of alerts) {
      expect(annotations['runbook_url']?.split('#')[1]).toBe(alert.toLowerCase())
    }
  })

  test.each(
    panels.flatMap(({ title, runbook }) => (runbook === undefined ? [] : [[title, runbook] as const])),
  )('the panel %s links to a section that is there', (_, runbook) => {
    expect(anchors).toContain(`alerts.md${runbook}`)
  })

  test.each(runbooks.map(({ name, text }) => [name, text] as const))(
    '%s names only metrics, settings and sections that exist',
    (name, text) => {
      const metrics = [...text.matchAll(/\bpostern_[a-z_]+/g)].map(([metric]) => metric)
      // A pattern of grep holds the beginning of a name.
      const known = [...catalogue.keys(), ...ourMetrics]
      expect(metrics.filter(metric => !known.some(name => name.startsWith(metric)))).toEqual([])
      const paths = new Set(settings.map(({ path }) => path))
      const named = [
        ...text.matchAll(
          /`((?:gateway|upstream|redis|keyService|keys|limits|drain|reload|metrics)\.[A-Za-z.]+)`/g,
        ),
      ]
      expect(named.map(([, path = '']) => path).filter(path => !paths.has(path))).toEqual([])
      const links = [...text.matchAll(/\]\((#[a-z]+)\)/g)].map(([, link = '']) => name + link)
      expect(links.filter(link => !anchors.includes(link))).toEqual([])
    },
  )
})
