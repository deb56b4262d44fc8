import { existsSync, globSync, readFileSync } from 'node:fs'
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
  'rate-limits',
  'redis',
  'response-cache',
  'routes-and-scopes',
  'sign-in',
  'upstream',
  'webhooks',
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

/** Rows and sentences that give a number as the default of a setting: a table's second cell, or "`setting` (default 5)". */
const DEFAULT = /^\| `([a-zA-Z.]+)` \| ([\d,]+) \||`([a-zA-Z.]+)` \(default:? ([\d,]+)/gm

function defaultsIn(page: string): (readonly [path: string, value: number])[] {
  const found = [...page.matchAll(DEFAULT)].map(
    ([, row, cell, named, number]) =>
      [row ?? named ?? '', Number((cell ?? number ?? '').replaceAll(',', ''))] as const,
  )
  return found.filter(([path]) => settings.some(setting => setting.path === path))
}

const stating = globSync('**/*.md', { cwd: DOCS })
  .map(file => ({ file, defaults: defaultsIn(readFileSync(new URL(file, DOCS), 'utf8')) }))
  .filter(({ defaults }) => defaults.length > 0)

test.each(stating)('docs/$file states the defaults of settings as they are', ({ defaults }) => {
  const real = defaults.map(([path]) => [
    path,
    settings.find(setting => setting.path === path)?.schema.default,
  ])
  expect(defaults).toEqual(real)
})

test('several pages state defaults', () => {
  expect(stating.length).toBeGreaterThan(5)
})
