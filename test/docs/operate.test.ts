import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { settings } from '../../src/config/settings.ts'
import { isAuditAction } from '../../src/console/platform/audit/entries.ts'
import { ourMetrics } from '../observability/catalogue.ts'
import { METRICS_PAGE, withCurrentMetrics } from './metrics-table.ts'

const DOCS = new URL('../../docs/', import.meta.url)
const pages = ['operate', 'behind'].flatMap(folder =>
  readdirSync(new URL(folder, DOCS))
    .filter(file => file.endsWith('.md'))
    .map(file => [`${folder}/${file}`, readFileSync(new URL(`${folder}/${file}`, DOCS), 'utf8')] as const),
)
const ALERTS = readdirSync(new URL('../../helm/alerts', import.meta.url))
  .map(file => readFileSync(new URL(`../../helm/alerts/${file}`, import.meta.url), 'utf8'))
  .join('\n')
const PLANES =
  'gateway|console|upstream|keys|limits|redis|keyService|database|drain|reload|tracing|metrics|log|ops'
const paths = settings.map(({ path }) => path)
/** Chart values that share a prefix with settings. */
const OF_THE_CHART =
  /^(?:gateway|console)\.(?:replicas|resources|autoscaling|ingress|httpRoute|service|pod|persistence|internalService|config|secrets|backup|switchDatabase)\b/

it('the table of metrics matches the registry (npm run docs)', () => {
  const page = readFileSync(METRICS_PAGE, 'utf8')
  expect(page).toBe(withCurrentMetrics(page))
  expect(ourMetrics.filter(name => !page.includes(`| \`${name}\` |`))).toEqual([])
})

describe.each(pages)('docs/%s', (page, text) => {
  it('names only metrics, alerts and settings that exist', () => {
    const metrics = [...text.matchAll(/\bpostern_[a-z_]+[a-z]/g)].map(([name]) => name)
    expect(metrics.filter(name => !ourMetrics.includes(name))).toEqual([])
    const alerts = [...text.matchAll(/`(Postern[A-Z]\w+)`/g)].map(([, name = '']) => name)
    expect(alerts.filter(name => !ALERTS.includes(`alert: ${name}`))).toEqual([])
    const named = [...text.matchAll(new RegExp(`\`((?:${PLANES})\\.[A-Za-z.]+)\\b[^\`]*\``, 'g'))].map(
      ([, path = '']) => path,
    )
    const known = (path: string) => paths.some(other => other === path || other.startsWith(`${path}.`))
    expect(named.filter(path => !known(path) && !OF_THE_CHART.test(path) && !isAuditAction(path))).toEqual([])
  })

  it('links to files that exist', () => {
    const links = [...text.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, link = '']) => link)
    const local = links.filter(link => !link.startsWith('http'))
    expect(local.filter(link => !existsSync(new URL(link, new URL(page, DOCS))))).toEqual([])
  })

  it('has YAML that parses', () => {
    for (const [, block = ''] of text.matchAll(/^ *```yaml\n([\s\S]*?)\n *```/gm))
      expect(parseAllDocuments(block).flatMap(({ errors }) => errors)).toEqual([])
  })
})
