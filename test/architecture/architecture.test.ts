import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { functionsOf } from './functions.ts'
import { codeOf, importsOf } from './source-text.ts'

const ROOT = fileURLToPath(new URL('../../src/', import.meta.url))

interface SourceFile {
  /** `domain/route/route.ts` */
  readonly path: string
  /** The folder below `src`; '' for files directly in it. */
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

/** Layers that wire the parts together may import all of them; only they import each other. `doctor` checks both planes. */
const WIRING = ['', 'run', 'cli', 'doctor']

/**
 * For each layer, what it may import from others: whole layers (`domain/`), single files, and what it may import as a type
 * only. Every layer may import itself.
 */
const ALLOWED: Readonly<Record<string, { values: readonly string[]; types: readonly string[] }>> = {
  domain: { values: [], types: [] },
  config: { values: ['domain/'], types: [] },
  http: { values: ['domain/'], types: ['config/'] },
  observability: { values: ['domain/', 'http/', 'outgoing/'], types: ['config/'] },
  redis: {
    values: ['domain/', 'config/reloadable.ts', 'config/setting-files.ts', 'observability/'],
    types: ['config/'],
  },
  outgoing: { values: ['domain/', 'http/node-http.ts'], types: ['config/'] },
  keys: {
    values: [
      'domain/',
      'redis/',
      'outgoing/',
      'config/reloadable.ts',
      'config/setting-files.ts',
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
      'config/setting-files.ts',
      'observability/metrics/metrics.ts',
      'observability/failure-log.ts',
    ],
    types: ['config/'],
  },
  upstream: {
    values: ['domain/', 'http/', 'observability/', 'config/reloadable.ts', 'config/setting-files.ts'],
    types: ['config/'],
  },
  gateway: {
    values: [
      'domain/',
      'upstream/',
      'http/',
      'observability/',
      'config/reloadable.ts',
      'config/setting-files.ts',
    ],
    types: ['config/', 'keys/tiers/key-store.ts', 'limits/rate-limiter.ts'],
  },
  console: {
    values: [
      'domain/',
      'redis/',
      'outgoing/',
      'http/',
      'config/reloadable.ts',
      'config/setting-files.ts',
      'observability/metrics/metrics.ts',
      'observability/control-logger.ts',
      'observability/failure-log.ts',
      'observability/limit-listener.ts',
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

describe('the parts import only what they need', () => {
  it('every file belongs to a layer with rules', () => {
    const known = [...WIRING, ...Object.keys(ALLOWED)]
    expect(FILES.filter(file => !known.includes(file.layer)).map(file => file.path)).toEqual([])
    expect(FILES.filter(file => file.layer === '').map(file => file.path)).not.toContain('index.ts')
  })

  it('imports point from the wiring through the parts to the domain, never across or back', () => {
    expect(EDGES.filter(edge => edge.ours && !isAllowed(edge)).map(say)).toEqual([])
  })

  it('the command line imports nothing of a running console: capabilities that have calls or pages are reached by the admin API', () => {
    const offline = [
      'console/backup/',
      'console/audit/verify.ts',
      'console/platform/',
      'console/api-reference/',
    ]
    const others = EDGES.filter(
      ({ from, to }) => from.layer === 'cli' && to.startsWith('console/') && !within(to, offline),
    )
    expect(others.map(say)).toEqual([])
  })

  it('gateway and console do not import each other', () => {
    const across = EDGES.filter(
      ({ from, to }) =>
        (/^(?:gateway|upstream|keys|limits)$/.test(from.layer) && to.startsWith('console/')) ||
        (from.layer === 'console' && /^(?:gateway|upstream|keys|limits)\//.test(to)),
    )
    expect(across.map(say)).toEqual([])
  })

  it('a start loads no WebSocket client of Node’s, as importing values of node:http does: http/node-http.ts gives them', () => {
    // Its package imports them in any case.
    const inAnyCase = 'cli/commands/proxy.ts'
    const importing = EDGES.filter(
      ({ from, to, typeOnly }) => to === 'node:http' && !typeOnly && from.path !== inAnyCase,
    )
    expect(importing.map(say)).toEqual([])
  })

  it('the domain is pure: of all modules it imports only node:crypto', () => {
    const foreign = EDGES.filter(
      ({ from, to, ours }) => from.layer === 'domain' && !ours && to !== 'node:crypto',
    )
    expect(foreign.map(say)).toEqual([])
  })

  it('the domain uses neither time nor randomness, except for the clock and the timers that it provides', () => {
    const impure =
      /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\brandomBytes\b|\brandomUUID\b|\bperformance\.|\bset(?:Timeout|Interval|Immediate)\b|\bfetch\b/
    const found = FILES.filter(
      ({ layer, path, text }) =>
        layer === 'domain' && path !== 'domain/clock.ts' && impure.test(codeOf(text)),
    )
    expect(found.map(file => file.path)).toEqual([])
  })

  it('Redis clients are created in one place, so that timeouts and retries are the same everywhere', () => {
    const makers = FILES.filter(({ text }) => /\bnew (?:Redis|Cluster)\b/.test(codeOf(text)))
    expect(makers.map(file => file.layer)).toEqual(makers.map(() => 'redis'))
    expect(makers).not.toEqual([])
  })

  it('only src/redis imports ioredis, types included', () => {
    const users = EDGES.filter(({ from, to }) => to === 'ioredis' && from.layer !== 'redis')
    expect(users.map(say)).toEqual([])
  })

  it('only one file forwards requests, and only the metrics import their library', () => {
    const users = (name: string) => [
      ...new Set(EDGES.filter(edge => edge.to === name).map(edge => edge.from.path)),
    ]
    expect(users('prom-client')).toEqual([
      'observability/metrics/metric-handles.ts',
      'observability/metrics/metrics.ts',
    ])
    // Without the folder and this line, requests are forwarded without a response cache.
    const importers = EDGES.filter(
      ({ from, to }) =>
        to.startsWith('upstream/response-cache/') && !from.path.startsWith('upstream/response-cache/'),
    )
    expect(importers.map(say)).toEqual([
      'gateway/create-gateway.ts -> upstream/response-cache/with-response-cache.ts',
    ])
  })

  it('only the demo can sign in without a provider; no setting does', () => {
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

  it('every relative import names an existing file', () => {
    expect(EDGES.filter(edge => edge.ours && !existsSync(join(ROOT, edge.to))).map(say)).toEqual([])
  })

  it("Node's own modules are imported with the prefix node:", () => {
    expect(
      EDGES.filter(({ to, ours }) => !ours && isBuiltin(to) && !to.startsWith('node:')).map(say),
    ).toEqual([])
  })
})

/** The folder of a file below `src`. */
const folderOf = (path: string) => dirname(path)
/** `keys` of `console/keys/rows/commit.ts`; null outside the capabilities of the console. */
const capabilityOf = (path: string) => /^console\/(?!platform\/)([^/]+)\//.exec(path)?.[1] ?? null

describe('folders have one direction', () => {
  const between = new Set(
    EDGES.filter(({ from, to, ours }) => ours && folderOf(from.path) !== folderOf(to)).map(
      ({ from, to }) => `${folderOf(from.path)} -> ${folderOf(to)}`,
    ),
  )

  it('no two folders import each other', () => {
    const mutual = [...between].flatMap(edge => {
      const [from = '', to = ''] = edge.split(' -> ')
      return from < to && between.has(`${to} -> ${from}`) ? [`${from} <-> ${to}`] : []
    })
    expect(mutual).toEqual([])
  })

  it('what the capabilities of the console share imports none of them', () => {
    const found = EDGES.filter(
      ({ from, to }) => from.path.startsWith('console/platform/') && capabilityOf(to) !== null,
    )
    expect(found.map(say)).toEqual([])
  })

  it('capabilities of the console meet at index.ts alone', () => {
    const past = EDGES.flatMap(({ from, to }) => {
      const [own, other] = [capabilityOf(from.path), capabilityOf(to)]
      const isPast = own !== null && other !== null && own !== other && to !== `console/${other}/index.ts`
      return isPast ? [`${own} -> ${other}`] : []
    })
    expect([...new Set(past)]).toEqual([])
  })

  it('a page has its route beside it, so that a new one leaves index.ts as it is', () => {
    const registering = FILES.filter(
      ({ path, text }) =>
        /^console\/[^/]+\/index\.ts$/.test(path) && /\bscope\.(?:get|post)\(/.test(codeOf(text)),
    )
    // Its only page belongs to the whole of it: the document, the settings, and the requests that it tries.
    expect(registering.map(({ path }) => path)).toEqual(['console/api-reference/index.ts'])
  })
})

/** Folders and files of the house, and those that tools demand at the root. */
const TOP_LEVEL =
  `.ci .ct .dockerignore .github .gitignore .npmrc CHANGELOG.md CONTRIBUTING.md Dockerfile LICENSE README.md SECURITY.md
  biome.json compose.yaml config docs helm package-lock.json package.json src test tsconfig.json vitest.config.ts`.split(
    /\s+/,
  )

it.skipIf(!existsSync(join(ROOT, '../.git')))(
  'nothing else is committed at the top level, such as a log of Node',
  () => {
    const tracked = execFileSync('git', ['ls-files'], { cwd: join(ROOT, '..'), encoding: 'utf8' })
    const entries = new Set(
      tracked
        .trim()
        .split('\n')
        .map(path => path.split('/')[0]),
    )
    expect([...entries].sort()).toEqual(TOP_LEVEL.toSorted())
  },
)

describe('files are short', () => {
  const sizes = FILES.map(({ path, text }) => ({ path, lines: text.trimEnd().split('\n').length }))

  it('none has more than 400 lines', () => {
    expect(sizes.filter(({ lines }) => lines > 400)).toEqual([])
  })

  it('no function has more than 60 lines', () => {
    const long = FILES.flatMap(({ path, text }) =>
      functionsOf(text, path.endsWith('.ts') ? 'ts' : 'js')
        .filter(({ lines }) => lines > 60)
        .map(({ name, line, lines }) => `${path}:${line} ${name} has ${lines} lines`),
    )
    expect(long).toEqual([])
  })

  it('half of them have 130 lines or fewer', () => {
    const sorted = sizes.map(({ lines }) => lines).sort((a, b) => a - b)
    expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThanOrEqual(130)
  })
})

describe('no file bypasses the rules', () => {
  function filesWith(
    pattern: RegExp,
    view: (text: string) => string,
    except: readonly string[] = [],
  ): string[] {
    return FILES.filter(({ path, text }) => !except.includes(path) && pattern.test(view(text))).map(
      file => file.path,
    )
  }

  it('only the entrance uses the global process', () => {
    const entrance = ['main.ts', 'supported-node.cjs']
    // It takes a module of Node's, not the state of the process.
    const loading = 'http/node-http.ts'
    expect(
      filesWith(/(?<![\w.$])(?:globalThis\.)?process\s*[.[?]|\{[^}]*\}\s*=\s*process\b/, codeOf, [
        ...entrance,
        loading,
      ]),
    ).toEqual([])
    expect(EDGES.filter(edge => edge.to === 'node:process').map(say)).toEqual([])
  })

  it('nothing has the type any', () => {
    expect(filesWith(/(?:[:<|&,=([]|\b(?:as|extends|satisfies|keyof)\b)\s*any\b(?!\s*[(:])/, codeOf)).toEqual(
      [],
    )
  })

  it('no compiler or linter rule is disabled', () => {
    // The brackets keep this file from matching its own search for disabling comments.
    const switches = /[@]ts-(?:ignore|nocheck|expect-error)|biome[-]ignore|eslint[-]disable/
    expect(filesWith(switches, text => text)).toEqual([])
  })

  it('all output goes through the logger', () => {
    expect(
      filesWith(/(?<![\w.$])console\s*\.\s*(?:log|error|warn|info|debug|trace|dir|table)\b/, codeOf),
    ).toEqual([])
  })

  it('no text is executed as code', () => {
    expect(filesWith(/(?<![\w.$])eval\s*\(|\bnew Function\b/, codeOf)).toEqual([])
  })

  it('the checks above see files at all', () => {
    expect(FILES.length).toBeGreaterThan(30)
    expect(EDGES.filter(edge => edge.ours).length).toBeGreaterThan(50)
  })
})
