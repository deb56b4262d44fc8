import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { rules as allRules } from '../observability/rule-files.ts'
import { CHART, MINIMAL, NAME, render, type Values } from '../support/chart.ts'
import { at, listAt, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const API = 'monitoring.coreos.com/v1'
const RULES = `
groups:
  - name: postern-test
    interval: 30s
    rules:
      - record: job:postern:ratio
        expr: vector(1)
      - alert: PosternOne
        expr: up == 0
        for: 5m
        labels: { severity: critical }
        annotations:
          summary: One
          description: It is {{ $value }} on {{ $labels.pod }}.
          runbook_url: https://postern.example/runbooks/keys.md#posternone
          dashboard_url: https://grafana.example/d/postern-keys
      - alert: PosternTwo
        expr: vector(1) > 2
        labels: { severity: warning }
      - alert: PosternDrainDeadlineHit
        expr: postern_draining == 1
        for: 35s
`
const UNIT_TEST = 'rule_files: [rules.yaml]\ntests: []\n'
const DASHBOARD = '{\n  "title": "Postern",\n  "legend": "{{pod}}"\n}\n'

/** The chart with rules and a dashboard for the tests. */
let chart = ''

beforeAll(() => {
  chart = join(mkdtempSync(join(tmpdir(), 'postern-chart-')), 'helm')
  cpSync(CHART, chart, { recursive: true })
  for (const directory of ['alerts', 'dashboards']) {
    rmSync(join(chart, directory), { recursive: true, force: true })
    mkdirSync(join(chart, directory))
  }
  writeFileSync(join(chart, 'alerts/rules.yaml'), RULES)
  writeFileSync(join(chart, 'alerts/rules_test.yaml'), UNIT_TEST)
  writeFileSync(join(chart, 'dashboards/gateway.json'), DASHBOARD)
})
afterAll(() => rmSync(join(chart, '..'), { recursive: true, force: true }))

const on = (monitoring: object, values: Values = MINIMAL, args: string[] = ['--api-versions', API]) =>
  render({ ...values, monitoring }, { chart, args: args.flatMap(arg => (arg === API ? kinds() : [arg])) })

/** The API versions of a cluster with the Prometheus operator. */
function kinds(): string[] {
  return [`${API},${API}/PodMonitor,${API}/ServiceMonitor,${API}/PrometheusRule`]
}

describe.skipIf(!has(HELM))('objects of operators are created', () => {
  const everything = {
    podMonitor: { enabled: true },
    prometheusRule: { enabled: true },
    dashboards: { enabled: true, grafanaOperator: { enabled: true } },
  }
  const made = (monitoring: object, args: string[]) =>
    on(monitoring, MINIMAL, args)
      .objects.map(({ kind }) => String(kind))
      .filter(kind => /Monitor|Rule|GrafanaDashboard/.test(kind))
      .sort()

  it('if the cluster knows their kinds', () => {
    expect(made(everything, ['--api-versions', API])).toEqual(['PodMonitor', 'PrometheusRule'])
  })

  it('not otherwise, so that the installation does not fail', () => {
    expect(made(everything, [])).toEqual([])
  })

  it('if trustApis is set', () => {
    const trusted = { ...everything, trustApis: true }
    expect(made(trusted, [])).toEqual(['GrafanaDashboard', 'PodMonitor', 'PrometheusRule'])
  })

  it('only if enabled', () => {
    expect(made({ trustApis: true }, [])).toEqual([])
  })
})

describe.skipIf(!has(HELM))('Prometheus', () => {
  const both = { ...MINIMAL, console: { enabled: true } }

  it('finds each plane’s pods by their ops port', () => {
    const rendering = on({ podMonitor: { enabled: true, labels: { release: 'p' }, interval: '15s' } }, both)
    for (const plane of ['gateway', 'console']) {
      const monitor = rendering.get('PodMonitor', `-${plane}`)
      expect(textAt(monitor, 'metadata.labels', 'release')).toBe('p')
      expect(valueAt(monitor, 'spec.selector.matchLabels', 'app.kubernetes.io/component')).toBe(plane)
      expect(listAt(monitor, 'spec.podMetricsEndpoints')).toEqual([
        {
          port: 'ops',
          path: '/metrics',
          interval: '15s',
          scrapeTimeout: '10s',
          relabelings: [{ targetLabel: 'job', replacement: `${NAME}-${plane}` }],
        },
      ])
    }
  })

  it('scrapes them under a job that the rules match, for every release name', () => {
    const rendering = on({ podMonitor: { enabled: true } }, { ...MINIMAL, fullnameOverride: 'edge' })
    expect(JSON.stringify(rendering.get('PodMonitor'))).toContain('"replacement":"postern-edge-gateway"')
  })

  it('finds them by a headless Service if serviceMonitor is enabled', () => {
    const rendering = on({ serviceMonitor: { enabled: true } }, both)
    expect(rendering.all('PodMonitor')).toEqual([])
    for (const plane of ['gateway', 'console']) {
      const wanted = at(rendering.get('ServiceMonitor', `-${plane}`), 'spec.selector.matchLabels')
      const found = rendering
        .all('Service')
        .filter(service =>
          Object.entries(wanted).every(([label, value]) => at(service, 'metadata.labels')[label] === value),
        )
      expect(found.map(service => textAt(service, 'metadata.name'))).toEqual([`${NAME}-${plane}-ops`])
      expect(at(found[0], 'spec')).toMatchObject({ clusterIP: 'None', ports: [{ name: 'ops', port: 9090 }] })
    }
  })
})

describe.skipIf(!has(HELM))('the rules', () => {
  const groupsOf = (prometheusRule: object) =>
    listAt(on({ prometheusRule: { enabled: true, ...prometheusRule } }).get('PrometheusRule'), 'spec.groups')
  const rulesOf = (prometheusRule: object) =>
    groupsOf(prometheusRule).flatMap(group => listAt(group, 'rules'))

  it('are exactly those of the files', () => {
    const [group, ...others] = groupsOf({})
    expect(others).toEqual([])
    expect(group).toMatchObject({ name: 'postern-test', interval: '30s' })
    expect(rulesOf({})).toMatchObject([
      { record: 'job:postern:ratio', expr: 'vector(1)' },
      { alert: 'PosternOne', annotations: { description: 'It is {{ $value }} on {{ $labels.pod }}.' } },
      { alert: 'PosternTwo' },
      { alert: 'PosternDrainDeadlineHit' },
    ])
  })

  it('can be disabled by name', () => {
    expect(rulesOf({ disabled: ['PosternTwo'] }).map(({ alert }) => alert)).toEqual([
      undefined,
      'PosternOne',
      'PosternDrainDeadlineHit',
    ])
  })

  it('can be overridden by name, and keep all other fields', () => {
    const overrides = { PosternOne: { for: '10m', expr: 'up == 2', labels: { severity: 'warning' } } }
    expect(rulesOf({ overrides })[1]).toEqual({
      alert: 'PosternOne',
      expr: 'up == 2',
      for: '10m',
      labels: { severity: 'warning' },
      annotations: {
        summary: 'One',
        description: 'It is {{ $value }} on {{ $labels.pod }}.',
      },
    })
  })

  it('use configured thresholds, everywhere in the expression and in no other rule', () => {
    const thresholds = (chosen: object) => {
      const monitoring = { trustApis: true, prometheusRule: { enabled: true, thresholds: chosen } }
      const console = { enabled: true, backup: { enabled: true } }
      const rule = render({ ...MINIMAL, console, monitoring }).get('PrometheusRule')
      return listAt(rule, 'spec.groups').flatMap(group => listAt(group, 'rules'))
    }
    const { monitoring } = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8')) as ThresholdValues
    const defaults = monitoring.prometheusRule.thresholds
    const inRelease = thresholds({})
    for (const [name, number] of Object.entries(defaults)) {
      const before = inRelease
        .filter(({ alert }) => alert === name)
        .map(({ expr }) => ({ expr: String(expr) }))
      const other = number * 1.5
      const after = thresholds({ [name]: other }).filter(({ alert }) => alert === name)
      const expected = before.map(({ expr }) =>
        expr.replace(new RegExp(`([<>] )${number}(?![0-9.])`, 'g'), `$1${other}`),
      )
      expect(after.map(({ expr }) => expr)).toEqual(expected)
      expect(expected).not.toEqual(before.map(({ expr }) => expr))
    }
  })

  it('have configured labels, runbooks and further groups', () => {
    const extra = { name: 'own', rules: [{ record: 'a:b:c', expr: '1' }] }
    const prometheusRule = {
      alertLabels: { team: 'edge' },
      runbookUrl: 'https://wiki/{page}#{anchor}',
      dashboardUrl: 'https://grafana/d/{page}',
      extraGroups: [extra],
    }
    const rules = rulesOf(prometheusRule)
    expect(rules[1]).toMatchObject({
      labels: { severity: 'critical', team: 'edge' },
      annotations: {
        summary: 'One',
        runbook_url: 'https://wiki/keys.md#posternone',
        dashboard_url: 'https://grafana/d/postern-keys',
      },
    })
    expect(rules[0]).not.toHaveProperty('labels')
    expect(groupsOf(prometheusRule).at(-1)).toEqual(extra)
  })

  it('cannot be configured under an unknown name', () => {
    const rendering = on({ prometheusRule: { disabled: ['PosternThree'] } })
    expect(rendering.stderr).toContain(
      'names the alert PosternThree, which does not exist: use one of PosternDrainDeadlineHit, PosternOne, PosternTwo',
    )
  })
})

describe.skipIf(!has(HELM))('the rules of a release', () => {
  const withRules = (values: Values, prometheusRule: object = {}) => {
    const monitoring = { trustApis: true, prometheusRule: { enabled: true, ...prometheusRule } }
    const rule = render({ ...values, monitoring }).get('PrometheusRule')
    return listAt(rule, 'spec.groups').flatMap(group => listAt(group, 'rules'))
  }
  const namesOf = (values: Values) =>
    withRules(values).flatMap(({ alert }) => (alert === undefined ? [] : [alert]))
  const both = {
    ...MINIMAL,
    console: { enabled: true, backup: { enabled: true } },
    gateway: { autoscaling: { enabled: true } },
  }

  it('are all of them for both planes with an autoscaler and a backup', () => {
    expect(withRules(both).map(({ record, alert }) => record ?? alert)).toEqual(
      allRules.map(({ record, alert }) => record ?? alert),
    )
  })

  it('read only series of its namespace and jobs', () => {
    const gateway = `namespace="default",job="${NAME}-gateway"`
    const console_ = `namespace="default",job="${NAME}-console"`
    const either = `namespace="default",job=~"${NAME}-gateway|${NAME}-console"`
    const autoscaler = `namespace="default",horizontalpodautoscaler="${NAME}-gateway"`
    const scopes = withRules(both).flatMap(({ expr }) => [
      ...String(expr).matchAll(/(?<=^|[\s(])(?:job:|postern_|nodejs_|up\b|kube_)[\w:]*(?:\{(.*?)\})?/g),
    ])
    expect(scopes.length).toBeGreaterThan(allRules.length)
    const backup = `namespace="default",cronjob="${NAME}-backup"`
    const jobs = `namespace="default",job_name=~"${NAME}-backup-[0-9]+"`
    const known = [gateway, console_, either, autoscaler, backup, jobs]
    expect(
      scopes.map(([, own = '']) => own).filter(own => !known.some(scope => own.startsWith(scope))),
    ).toEqual([])
    expect(new Set(scopes.map(([, own = '']) => known.find(scope => own.startsWith(scope))))).toEqual(
      new Set(known),
    )
  })

  it('read series with the given matchers instead, if some are given', () => {
    const exprs = withRules(MINIMAL, { selector: 'job="edge"' }).map(({ expr }) => String(expr))
    expect(exprs.filter(expr => !expr.includes('{job="edge"'))).toEqual([])
  })

  it('are none about gateways without gateways, and none about the console without a console', () => {
    const alone = namesOf({ ...both, gateway: { enabled: false } })
    const gateways = namesOf(MINIMAL)
    expect(alone).toEqual(
      expect.arrayContaining(['PosternConsoleAbsent', 'PosternTargetDown', 'PosternKeyStoreUnavailable']),
    )
    expect(
      alone.filter(name =>
        /^PosternAbsent$|Upstream|Budget|Revocation|RateLimiter|Autoscaler/.test(String(name)),
      ),
    ).toEqual([])
    expect(gateways).toEqual(
      expect.arrayContaining(['PosternAbsent', 'PosternTargetDown', 'PosternKeyStoreUnavailable']),
    )
    expect(
      gateways.filter(name => /Console|Webhook|Audit|DrainDeadlineHit|Region|Autoscaler/.test(String(name))),
    ).toEqual([])
  })

  it('have no second alert of a name', () => {
    const extraGroups = [{ name: 'own', rules: [{ alert: 'PosternAbsent', expr: '1' }] }]
    const monitoring = { prometheusRule: { extraGroups } }
    expect(render({ ...MINIMAL, monitoring }).stderr).toContain(
      'extraGroups has an alert PosternAbsent, as the chart does: use overrides, or another name',
    )
  })
})

describe.skipIf(!has(HELM))('a dashboard', () => {
  const real = (dashboards: object, prometheusRule = {}) => {
    const monitoring = { dashboards: { enabled: true, ...dashboards }, prometheusRule }
    const map = render({ ...MINIMAL, monitoring }).get('ConfigMap', '-dashboard-gateway')
    return JSON.parse(textAt(map, 'data', 'gateway.json')) as Dashboard
  }
  const linksOf = ({ links, panels }: Dashboard) => {
    const all = panels.flatMap(panel => [panel, ...(panel.panels ?? [])])
    return [...links, ...all.flatMap(panel => panel.links ?? [])].flatMap(({ url }) => url ?? [])
  }
  const ours = JSON.parse(readFileSync(join(CHART, 'dashboards/gateway.json'), 'utf8')) as Dashboard
  const withoutLinks = ({ links: _, panels, templating, ...dashboard }: Dashboard) => ({
    ...dashboard,
    panels: panels.map(({ links: __, panels: folded, ...panel }) => ({
      ...panel,
      folded: folded?.map(({ links: ___, ...own }) => own),
    })),
    variables: templating.list.filter(({ name }) => !['runbooks', 'logs', 'traces'].includes(name)),
  })

  it('links to the configured runbooks, logs and traces', () => {
    const dashboard = real({
      runbookUrl: 'https://wiki/{page}#{anchor}',
      logsUrl: 'https://logs/d/x',
      tracesUrl: 'https://traces/',
    })
    const links = linksOf(dashboard)
    expect(links).toEqual(
      expect.arrayContaining([
        'https://wiki/alerts.md',
        'https://logs/d/x',
        'https://traces/',
        'https://wiki/alerts.md#posternupstreamdown',
      ]),
    )
    expect(links.length).toBe(linksOf(ours).length)
    expect(JSON.stringify(dashboard)).not.toMatch(/postern\.example|\$runbooks|\$logs|\$traces/)
    expect(withoutLinks(dashboard)).toEqual(withoutLinks(ours))
  })

  it.each([
    ['https://wiki/postern/{anchor}', 'https://wiki/postern', 'https://wiki/postern/posternupstreamdown'],
    [
      'https://wiki/?page={page}&at={alert}',
      'https://wiki/',
      'https://wiki/?page=alerts.md&at=posternupstreamdown',
    ],
  ])('leads where alerts lead, %s, unless it is said otherwise', (runbookUrl, all, one) => {
    expect(linksOf(real({}, { runbookUrl }))).toEqual(expect.arrayContaining([all, one]))
  })

  it('has no links without configured URLs', () => {
    const dashboard = real({})
    expect(linksOf(dashboard)).toEqual([])
    expect(JSON.stringify(dashboard)).not.toContain('postern.example')
    expect(withoutLinks(dashboard)).toEqual(withoutLinks(ours))
  })

  it('is small enough for the last-applied annotation of kubectl', () => {
    for (const map of render({ ...MINIMAL, monitoring: { dashboards: { enabled: true } } }).all(
      'ConfigMap',
    )) {
      expect(JSON.stringify(map).length).toBeLessThan(256 * 1024)
    }
  })

  it('is found by Grafana’s sidecar, in a folder of its own', () => {
    const dashboard = on({ dashboards: { enabled: true } }).get('ConfigMap', '-dashboard-gateway')
    expect(at(dashboard, 'metadata.labels')['grafana_dashboard']).toBe('1')
    expect(at(dashboard, 'metadata.annotations')).toEqual({ grafana_folder: 'Postern' })
    expect(JSON.parse(textAt(dashboard, 'data', 'gateway.json'))).toEqual({
      ...(JSON.parse(DASHBOARD) as object),
      links: [],
    })
  })

  it('is an object of the Grafana operator, too', () => {
    const monitoring = { trustApis: true, dashboards: { enabled: true, grafanaOperator: { enabled: true } } }
    const dashboard = on(monitoring).get('GrafanaDashboard')
    expect(at(dashboard, 'spec')['configMapRef']).toEqual({
      name: `${NAME}-dashboard-gateway`,
      key: 'gateway.json',
    })
  })
})

interface ThresholdValues {
  readonly monitoring: {
    readonly prometheusRule: { readonly thresholds: Readonly<Record<string, number>> }
  }
}

interface Dashboard {
  readonly links: readonly { readonly url?: string }[]
  readonly panels: readonly DashboardPanel[]
  readonly templating: { readonly list: readonly { readonly name: string }[] }
}

interface DashboardPanel {
  readonly links?: readonly { readonly url?: string }[]
  readonly panels?: readonly DashboardPanel[]
}
