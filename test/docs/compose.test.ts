import { readFileSync } from 'node:fs'
import { Script } from 'node:vm'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { settings } from '../../src/config/settings.ts'

interface Service {
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
  expect(ours.filter(name => !known.includes(name))).toEqual([])
})

test('each script in compose.yaml is valid, and compose substitutes nothing in it', () => {
  const scripts = Object.values(services).filter(({ entrypoint }) => entrypoint?.at(-1) === '--eval')
  expect(scripts).toHaveLength(2)
  for (const { command = [] } of scripts) {
    expect(() => new Script(command[0] ?? '')).not.toThrow()
    expect(command[0]).not.toContain('$')
  }
})
