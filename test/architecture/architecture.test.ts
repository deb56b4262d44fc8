import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { functionsOf } from './functions.ts'
import { codeOf, importsOf } from './source-text.ts'

const ROOT = fileURLToPath(new URL('../../src/', import.meta.url))

interface SourceFile {
  /** `domain/route.ts` */
  readonly path: string
  /** The folder below `src`; '' for the files beside them. */
  readonly layer: string
  readonly text: string
}

interface Edge {
  readonly from: SourceFile
  /** A path below `src`, or the name of a package. */
  readonly to: string
  readonly ours: boolean
  readonly typeOnly: boolean
}

const FILES: readonly SourceFile[] = readdirSync(ROOT, { recursive: true, withFileTypes: true })
  .filter(entry => entry.isFile() && /\.[cm]?[jt]sx?$/.test(entry.name))
  .map(entry => relative(ROOT, join(entry.parentPath, entry.name)))
  .sort()
  .map(path => ({
    path,
    layer: path.includes('/') ? (path.split('/')[0] ?? '') : '',
    text: readFileSync(join(ROOT, path), 'utf8'),
  }))

const EDGES: readonly Edge[] = FILES.flatMap(from =>
  importsOf(from.text).map(({ specifier, typeOnly }) => {
    const ours = specifier.startsWith('.')
    return { from, to: ours ? join(dirname(from.path), specifier) : specifier, ours, typeOnly }
  }),
)

/** What wires the parts together may import all of them; nothing imports it but itself. */
const WIRING = ['', 'run', 'cli']

/**
 * For each layer what it may import of another one: whole layers (`domain/`), single files, and what it may name only as
 * a type. A layer may always import itself.
 */
const ALLOWED: Readonly<Record<string, { values: readonly string[]; types: readonly string[] }>> = {
  domain: { values: [], types: [] },
  config: { values: ['domain/'], types: [] },
  http: { values: ['domain/'], types: ['config/'] },
  observability: { values: ['domain/', 'http/'], types: ['config/'] },
  redis: {
    values: ['domain/', 'config/reloadable.ts', 'observability/'],
    types: ['config/'],
  },
  keys: {
    values: [
      'domain/',
      'redis/',
      'config/reloadable.ts',
      'observability/metrics/metrics.ts',
      'observability/failure-log.ts',
    ],
    types: ['config/'],
  },
  limits: {
    values: [
      'domain/',
      'redis/',
      'config/reloadable.ts',
      'observability/metrics/metrics.ts',
      'observability/failure-log.ts',
    ],
    types: ['config/'],
  },
  upstream: {
    values: ['domain/', 'http/', 'observability/', 'config/reloadable.ts'],
    types: ['config/'],
  },
  gateway: {
    values: ['domain/', 'upstream/', 'http/', 'observability/', 'config/reloadable.ts'],
    types: ['config/', 'keys/key-store.ts', 'limits/rate-limiter.ts'],
  },
  control: {
    values: [
      'domain/',
      'redis/',
      'http/',
      'config/reloadable.ts',
      'observability/metrics/metrics.ts',
      'observability/logger.ts',
      'observability/control-logger.ts',
      'observability/failure-log.ts',
    ],
    types: ['config/'],
  },
}

function within(target: string, allowed: readonly string[]): boolean {
  return allowed.some(place => (place.endsWith('/') ? target.startsWith(place) : target === place))
}

function isAllowed({ from, to, typeOnly }: Edge): boolean {
  if (WIRING.includes(from.layer)) return true
  const rule = ALLOWED[from.layer]
  if (rule === undefined) return false
  return within(to, [`${from.layer}/`, ...rule.values, ...(typeOnly ? rule.types : [])])
}

function say({ from, to }: Edge): string {
  return `${from.path} -> ${to}`
}

describe('the parts know of each other only what they must', () => {
  it('every file is in a part that has rules', () => {
    const known = [...WIRING, ...Object.keys(ALLOWED)]
    expect(FILES.filter(file => !known.includes(file.layer)).map(file => file.path)).toEqual([])
    expect(FILES.filter(file => file.layer === '').map(file => file.path)).not.toContain('index.ts')
  })

  it('imports go from the wiring through the parts to the domain, and never across or back', () => {
    expect(EDGES.filter(edge => edge.ours && !isAllowed(edge)).map(say)).toEqual([])
  })

  it('the two planes are strangers', () => {
    const across = EDGES.filter(
      ({ from, to }) =>
        (/^(?:gateway|upstream|keys|limits)$/.test(from.layer) && to.startsWith('control/')) ||
        (from.layer === 'control' && /^(?:gateway|upstream|keys|limits)\//.test(to)),
    )
    expect(across.map(say)).toEqual([])
  })

  it('the domain is pure: of others it knows node:crypto alone', () => {
    const foreign = EDGES.filter(
      ({ from, to, ours }) => from.layer === 'domain' && !ours && to !== 'node:crypto',
    )
    expect(foreign.map(say)).toEqual([])
  })

  it('the domain neither asks for the time nor for chance, but for the clock that it hands to others', () => {
    const impure =
      /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\brandomBytes\b|\brandomUUID\b|\bperformance\.|\bset(?:Timeout|Interval|Immediate)\b|\bfetch\b/
    const found = FILES.filter(
      ({ layer, path, text }) =>
        layer === 'domain' && path !== 'domain/clock.ts' && impure.test(codeOf(text)),
    )
    expect(found.map(file => file.path)).toEqual([])
  })

  it('clients of Redis are made in one place, so that none waits or repeats where the others do not', () => {
    const makers = FILES.filter(({ text }) => /\bnew (?:Redis|Cluster)\b/.test(codeOf(text)))
    expect(makers.map(file => file.layer)).toEqual(makers.map(() => 'redis'))
    expect(makers).not.toEqual([])
  })

  it('ioredis is imported in redis alone, types too', () => {
    const users = EDGES.filter(({ from, to }) => to === 'ioredis' && from.layer !== 'redis')
    expect(users.map(say)).toEqual([])
  })

  it('only one file forwards, and only the metrics know their library', () => {
    const users = (name: string) => [
      ...new Set(EDGES.filter(edge => edge.to === name).map(edge => edge.from.path)),
    ]
    expect(users('prom-client')).toEqual([
      'observability/metrics/metric-declarations.ts',
      'observability/metrics/metric-handles.ts',
      'observability/metrics/metrics.ts',
      'observability/metrics/request-duration.ts',
    ])
    // Without the folder and this line, requests are forwarded as before.
    const importers = EDGES.filter(
      ({ from, to }) =>
        to.startsWith('upstream/response-cache/') && !from.path.startsWith('upstream/response-cache/'),
    )
    expect(importers.map(say)).toEqual([
      'gateway/create-gateway.ts -> upstream/response-cache/caching-forward.ts',
    ])
  })

  it('a way to sign in without a provider is made by the demo alone: no setting leads to it', () => {
    const makers = EDGES.filter(({ to, typeOnly }) => to.endsWith('/one-time-link.ts') && !typeOnly)
    expect(makers.map(edge => edge.from.path)).toEqual(['run/run-demo.ts'])
  })

  it('no import cycle exists, type imports included', () => {
    const next = Map.groupBy(
      EDGES.filter(edge => edge.ours),
      edge => edge.from.path,
    )
    const done = new Set<string>()
    const cycles: string[] = []
    function visit(path: string, way: readonly string[]): void {
      if (way.includes(path)) {
        cycles.push([...way.slice(way.indexOf(path)), path].join(' -> '))
        return
      }
      if (done.has(path)) return
      for (const edge of next.get(path) ?? []) visit(edge.to, [...way, path])
      done.add(path)
    }
    for (const file of FILES) visit(file.path, [])
    expect(cycles).toEqual([])
  })

  it('every import of ours names a file that is there', () => {
    expect(EDGES.filter(edge => edge.ours && !existsSync(join(ROOT, edge.to))).map(say)).toEqual([])
  })

  it('Node’s own modules are named as such', () => {
    expect(
      EDGES.filter(({ to, ours }) => !ours && isBuiltin(to) && !to.startsWith('node:')).map(say),
    ).toEqual([])
  })
})

describe('every file can be read at a sitting', () => {
  const sizes = FILES.map(({ path, text }) => ({ path, lines: text.trimEnd().split('\n').length }))

  it('none has more than 250 lines', () => {
    expect(sizes.filter(({ lines }) => lines > 250)).toEqual([])
  })

  it('no function has more than 60 lines', () => {
    const long = FILES.flatMap(({ path, text }) =>
      functionsOf(text, path.endsWith('.ts') ? 'ts' : 'js')
        .filter(({ lines }) => lines > 60)
        .map(({ name, line, lines }) => `${path}:${line} ${name} has ${lines} lines`),
    )
    expect(long).toEqual([])
  })

  it('half of them have 100 lines or fewer', () => {
    const sorted = sizes.map(({ lines }) => lines).sort((a, b) => a - b)
    expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThanOrEqual(100)
  })
})

describe('no file goes round the rules', () => {
  function filesWith(
    pattern: RegExp,
    view: (text: string) => string,
    except: readonly string[] = [],
  ): string[] {
    return FILES.filter(({ path, text }) => !except.includes(path) && pattern.test(view(text))).map(
      file => file.path,
    )
  }

  it('the process is touched by the entrance alone', () => {
    const entrance = ['main.ts', 'supported-node.cjs']
    expect(
      filesWith(/(?<![\w.$])(?:globalThis\.)?process\s*[.[?]|\{[^}]*\}\s*=\s*process\b/, codeOf, entrance),
    ).toEqual([])
    expect(EDGES.filter(edge => edge.to === 'node:process').map(say)).toEqual([])
  })

  it('nothing is of the type any', () => {
    expect(filesWith(/(?:[:<|&,=([]|\b(?:as|extends|satisfies|keyof)\b)\s*any\b(?!\s*[(:])/, codeOf)).toEqual(
      [],
    )
  })

  it('no rule of compiler or linter is switched off', () => {
    // What looks for switches in this file, too, is not to take their names here for one: hence the brackets.
    const switches = /[@]ts-(?:ignore|nocheck|expect-error)|biome[-]ignore|eslint[-]disable/
    expect(filesWith(switches, text => text)).toEqual([])
  })

  it('nothing is printed past the logger', () => {
    expect(
      filesWith(/(?<![\w.$])console\s*\.\s*(?:log|error|warn|info|debug|trace|dir|table)\b/, codeOf),
    ).toEqual([])
  })

  it('no text is run as code', () => {
    expect(filesWith(/(?<![\w.$])eval\s*\(|\bnew Function\b/, codeOf)).toEqual([])
  })

  it('and there are files of which all this is said', () => {
    expect(FILES.length).toBeGreaterThan(30)
    expect(EDGES.filter(edge => edge.ours).length).toBeGreaterThan(50)
  })
})
