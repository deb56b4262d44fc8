import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { settings } from '../../src/config/settings.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'

const DOCS = new URL('../../docs/', import.meta.url)
const GUIDES = [
  'admin-api',
  'allowed-addresses',
  'bring-your-own-keys',
  'cli',
  'integrators',
  'migrate',
  'migrate-concepts',
  'rate-limits',
  'redis',
  'response-cache',
  'routes-and-scopes',
  'search',
  'sign-in',
  'upstream',
  'webhooks',
  'workspace-webhooks',
]
const SETTING =
  /`((?:console|gateway|upstream|redis|keyService|keys|limits|database|drain|webhooks)\.[A-Za-z.]+)`/g

describe.each(GUIDES)('docs/%s.md', name => {
  const page = readFileSync(new URL(`${name}.md`, DOCS), 'utf8')
  const paths = settings.map(({ path }) => path)

  test('names only settings that exist', () => {
    const named = [...page.matchAll(SETTING)].map(([, path = '']) => path)
    expect(named.filter(path => !paths.includes(path))).toEqual([])
  })

  test('states their defaults as they are', () => {
    const rows = [...page.matchAll(/^\| `([a-zA-Z.]+)` \| (\d+) \|/gm)]
    for (const [, path, value] of rows) {
      const setting = settings.find(candidate => candidate.path === path)
      if (setting !== undefined) expect([path, setting.schema.default]).toEqual([path, Number(value)])
    }
  })

  test('names only metrics that exist', () => {
    const named = [...page.matchAll(/postern_[a-z_]+/g)].map(([metric]) => metric)
    const metrics = createMetrics()
      .registry.getMetricsAsArray()
      .map(metric => metric.name)
    expect(named.filter(metric => !metrics.includes(metric))).toEqual([])
  })

  test('links only to files of the repository', () => {
    const links = [...page.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target = '']) => target)
    expect(links.filter(target => !existsSync(new URL(target, DOCS)))).toEqual([])
  })
})
