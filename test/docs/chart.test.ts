import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { formats } from '../../src/config/formats.ts'
import { settings } from '../../src/config/settings.ts'
import { at, valueAt } from '../support/manifests.ts'
import { PATTERNS } from './chart-config-schema.ts'
import { CHART, chartFiles } from './chart-files.ts'
import { chartReadme, documentedValues } from './chart-readme.ts'

const SCHEMA: unknown = JSON.parse(readFileSync(new URL('values.schema.json', CHART), 'utf8'))
const VALUES = readFileSync(new URL('values.yaml', CHART), 'utf8')

/** Values that a format of the program accepts, and values that both it and the chart reject. */
const EXAMPLES: Readonly<Record<string, { taken: string[]; refused: string[] }>> = {
  'http-url': {
    taken: ['http://a', 'https://a.example:8443/base', 'HTTPS://[::1]:80/', 'http://a_b/%20'],
    refused: ['ftp://a', 'http://u:p@a', 'http://a?b', 'http://a#b', 'a'],
  },
  'host-and-port': {
    taken: ['workspaces:8080', 'w-1.default.svc.cluster.local:80', '10.0.0.5:8080', '[fd00::5]:8080'],
    refused: ['workspaces', 'http://workspaces:8080', ':8080', 'workspaces:port'],
  },
  'redis-url': {
    taken: ['redis://a', 'rediss://u:p@a:6380/0?family=6', 'REDIS://a'],
    refused: ['http://a', 'a:6379'],
  },
  'counted-workspace': { taken: ['ws_1', 'A.b-c~d'], refused: ['', 'a/b', 'x'.repeat(129)] },
  'redis-node': { taken: ['a:6379', 'rediss://a:6380', '[::1]:26379', 'a'], refused: ['http://a', 'a/0'] },
  'database-url': {
    taken: ['sqlite:/a/b.db', 'postgres://u@a/b?sslmode=require', 'postgresql://a'],
    refused: ['mysql://a', 'sqlite:'],
  },
  'proxy-url': {
    taken: ['http://proxy:3128', 'https://user:p%40ss@proxy', 'http://[fd00::5]:3128/'],
    refused: ['proxy:3128', 'socks5://proxy', 'http://proxy?x'],
  },
  'no-proxy-entry': {
    taken: [
      '*',
      'a.example',
      '.a.example',
      '*.a.example',
      'a:8080',
      '10.0.0.0/8',
      '10.1.2.3:80',
      '::1',
      '[::1]:80',
    ],
    refused: ['http://a', 'a/b', 'a b', ''],
  },
  cidr: { taken: ['10.0.0.0/8', '::1', '2001:db8::/32'], refused: ['ten', '10.0.0.0/8/8'] },
  scope: { taken: ['files:read', '*', "it's"], refused: ['a b', '', 'a"b'] },
  'forwardable-header': { taken: ['X-Thing', 'traceparent'], refused: ['X Thing', 'X:Y', ''] },
  'path-template': { taken: ['/a/{b}/c.d~e', '/a'], refused: ['a', '/a/', '/{}', '/a?b'] },
  'bearer-token': {
    taken: [randomBytes(32).toString('hex'), 'a~!/+=.-_0123456789'],
    refused: ['short', 'with a space in it', 'a-first-token-0123,a-second-token-0123'],
  },
  'signing-secret': {
    taken: [
      randomBytes(32).toString('base64'),
      randomBytes(40).toString('base64'),
      randomBytes(32).toString('base64url'),
    ],
    refused: ['not base64!', ''],
  },
  'webhook-secret': {
    taken: [randomBytes(24).toString('base64'), `whsec_${randomBytes(64).toString('base64')}`],
    refused: ['not base64!', '', 'whsec_'],
  },
}

describe('generated files of the chart are current (npm run docs)', () => {
  it.each(
    chartFiles.map(({ file, make }) => [file.pathname.slice(CHART.pathname.length), file, make] as const),
  )('%s', (_, file, make) => {
    expect(readFileSync(file, 'utf8')).toBe(make())
  })

  it('the chart has the version of the program', () => {
    const program = JSON.parse(readFileSync(new URL('../package.json', CHART), 'utf8')) as unknown
    const chart = parse(readFileSync(new URL('Chart.yaml', CHART), 'utf8')) as unknown
    expect(valueAt(chart, 'appVersion')).toBe(valueAt(program, 'version'))
  })
})

describe('the schema of values', () => {
  it('rejects unknown names at the root, in the settings, and wherever the chart reads values', () => {
    const open: string[] = []
    const free = new Set(['global', 'tags', ...['affinity', 'dnsConfig', 'metrics', 'requests', 'limits']])
    function visit(schema: unknown, path: string): void {
      const properties = valueAt(schema, 'properties')
      if (typeof properties !== 'object' || properties === null) return
      const name = path.split('.').at(-1) ?? ''
      if (valueAt(schema, 'additionalProperties') !== false && !free.has(name)) open.push(path)
      for (const [child, inner] of Object.entries(properties)) visit(inner, `${path}.${child}`)
    }
    visit(SCHEMA, '')
    for (const [name, schema] of Object.entries(at(SCHEMA, '$defs'))) visit(schema, name)
    expect(open).toEqual([])
  })

  it.each(settings.map(({ path, secret }) => [path, secret] as const))(
    'knows the setting %s (npm run docs)',
    (path, secret) => {
      const inConfig = path.split('.').join('.properties.')
      expect(valueAt(SCHEMA, `$defs.config.properties.${inConfig}`)).toBeDefined()
      if (secret || path.endsWith('File')) {
        expect(valueAt(SCHEMA, `$defs.secrets.properties.${inConfig}`)).toBeDefined()
      }
    },
  )

  it('requires no setting, because an error text explains what is required', () => {
    for (const section of Object.values(at(SCHEMA, '$defs.config.properties'))) {
      expect(section).not.toHaveProperty('required')
    }
  })
})

describe('a format of the program, as a pattern for Helm', () => {
  it.each(Object.keys(formats))('%s accepts what the program accepts, and rejects invalid values', name => {
    const pattern = new RegExp(PATTERNS[name] ?? '(?!)')
    const { taken, refused } = EXAMPLES[name] ?? { taken: [], refused: [] }
    expect(taken.length).toBeGreaterThan(0)
    expect(taken.filter(text => !formats[name]?.accepts(text))).toEqual([])
    expect(taken.filter(text => !pattern.test(text))).toEqual([])
    expect(refused.filter(text => formats[name]?.accepts(text) || pattern.test(text))).toEqual([])
  })

  it.each(Object.entries(PATTERNS))('%s uses only features of RE2', (_, pattern) => {
    expect(pattern).not.toMatch(/\(\?[=!<]|\\[1-9]/)
  })
})

describe('the README of the chart', () => {
  it('describes every value', () => {
    const silent = documentedValues(VALUES).filter(({ comment, group }) => comment === '' && !group)
    expect(silent.map(({ path }) => path)).toEqual([])
  })

  it('reads names, defaults and comments', () => {
    const yaml =
      '# About the file.\n\n# Of a.\na:\n  # Of b,\n  # in two lines.\n  b: 1\n  c: {}\n# Of d.\nd: { e: [x] }\n'
    expect(documentedValues(yaml)).toEqual([
      { path: 'a', byDefault: '', comment: 'Of a.', group: true },
      { path: 'a.b', byDefault: '`1`', comment: 'Of b, in two lines.', group: false },
      { path: 'a.c', byDefault: '`{}`', comment: '', group: false },
      { path: 'd', byDefault: '`{"e":["x"]}`', comment: 'Of d.', group: false },
    ])
  })

  it('keeps the text around its tables', () => {
    const markers = 'a\n<!-- values -->\n<!-- /values -->\nb\n<!-- settings -->\n<!-- /settings -->\nc\n'
    expect(chartReadme(markers, 'x: 1\n')).toMatch(/^a\n[\s\S]*\| `x` \| `1` \|[\s\S]*\nb\n[\s\S]*\nc\n$/)
    expect(() => chartReadme('', 'x: 1\n')).toThrow(/must hold/)
  })
})
