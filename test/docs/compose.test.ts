import { readFileSync } from 'node:fs'
import { Script } from 'node:vm'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { layerOfDefaults } from '../../src/config/layers.ts'
import { settings } from '../../src/config/settings.ts'

interface Service {
  readonly healthcheck?: { readonly test: readonly string[]; readonly start_period: string }
  readonly stop_grace_period?: string
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly image?: string
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
}
const FILE = readFileSync(new URL('../../compose.yaml', import.meta.url), 'utf8')
const { services } = parse(FILE, { merge: true }) as { services: Record<string, Service> }

test('compose.yaml starts gateway, console, Redis, PostgreSQL and a sample upstream', () => {
  expect(Object.keys(services)).toEqual(
    expect.arrayContaining(['gateway', 'console', 'redis', 'postgres', 'upstream']),
  )
})

test('compose.yaml, the Dockerfile, README, the chart and the page about installing name one image', () => {
  const pages = ['compose.yaml', 'Dockerfile', 'README.md', 'docs/operate/install.md', 'helm/README.md']
  const names = pages.map(page => {
    const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
    return [page, ...new Set(text.match(/[\w-]+(?:\.[\w-]+)+\/postern(?=:\d|[`\s])/g))]
  })
  expect(names).toEqual(pages.map(page => [page, 'registry.example.com/postern']))
  const ours = Object.values(services).flatMap(({ image = '' }) =>
    image.includes('postern:') ? [image] : [],
  )
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  expect([...new Set(ours)]).toEqual([`registry.example.com/postern:${version}`])
})

test('each setting in compose.yaml exists', () => {
  const known = settings.map(({ environment }) => environment)
  const named = Object.values(services).flatMap(({ environment = {} }) => Object.keys(environment))
  const ours = named.filter(name => name.startsWith('POSTERN_')).map(name => name.replace(/_FILE$/, ''))
  expect(ours.length).toBeGreaterThan(5)
  // The last is not a setting of the console, but the address that commands in its container use.
  expect(ours.filter(name => !known.includes(name))).toEqual(['POSTERN_CONSOLE_URL'])
})

test('each script in compose.yaml is valid, and compose substitutes nothing in it', () => {
  const scripts = Object.values(services).filter(({ entrypoint }) => entrypoint?.at(-1) === '--eval')
  expect(scripts).toHaveLength(2)
  for (const { command = [] } of scripts) {
    expect(() => new Script(command[0] ?? '')).not.toThrow()
    expect(command[0]).not.toContain('$')
  }
})

/** The service that makes the secrets and ends. */
const ONCE = 'tokens'

test('each service of compose.yaml that stays has a healthcheck, and who needs it waits for that', () => {
  const lasting = Object.keys(services).filter(name => name !== ONCE)
  expect(lasting.filter(name => services[name]?.healthcheck === undefined)).toEqual([])
  for (const { depends_on = {} } of Object.values(services)) {
    for (const [name, { condition }] of Object.entries(depends_on)) {
      expect([name, condition]).toEqual([
        name,
        name === ONCE ? 'service_completed_successfully' : 'service_healthy',
      ])
    }
  }
  const needs = (name: string) => Object.keys(services[name]?.depends_on ?? {}).toSorted()
  expect([needs('gateway'), needs('console')]).toEqual([
    ['console', 'redis', 'tokens', 'upstream'],
    ['postgres', 'redis', 'tokens'],
  ])
})

test('a healthcheck in compose.yaml runs a program of the image, without a shell, and compose substitutes nothing in it', () => {
  for (const { image = '', healthcheck } of Object.values(services)) {
    const [kind, program, ...rest] = healthcheck?.test ?? ['CMD', '/nodejs/bin/node']
    expect(kind).toBe('CMD')
    if (image.includes('postern:')) expect(program).toBe('/nodejs/bin/node')
    expect(rest.join(' ')).not.toContain('$')
  }
})

test('compose.yaml lets gateway and console finish their drain before it kills them', () => {
  const byDefault = layerOfDefaults()
  const drainMs = ['drain.delayMs', 'drain.timeoutMs'].map(path => Number(byDefault.get(path)?.value))
  for (const name of ['gateway', 'console']) {
    const { environment = {}, stop_grace_period = '10s' } = services[name] ?? {}
    // Other times than the default would have to be compared here.
    expect(Object.keys(environment).filter(variable => variable.startsWith('POSTERN_DRAIN'))).toEqual([])
    const graceMs = Number(/^(\d+)s$/.exec(stop_grace_period)?.[1]) * 1000
    expect(graceMs).toBeGreaterThanOrEqual(drainMs.reduce((sum, ms) => sum + ms, 0) + 5000)
  }
})
