import type { Tool } from './tools.ts'

/** What the tests of each folder protect, in the order in which a user meets it. No folder is in two rows. */
export const PROTECTED: readonly (readonly [guarantee: string, ...folders: string[]])[] = [
  ['a request needs a valid key with the scope, of its workspace', 'domain', 'gateway', 'blackbox'],
  ['no response reveals what other workspaces have', 'enumeration'],
  ['the same holds behind a proxy, and with your own key service', 'check', 'byo'],
  ['a revoked key is rejected within a second', 'keys', 'revocation', 'guarantees'],
  ['revocation holds while Redis, console or a region fails', 'outage', 'redis', 'regions', 'simulate'],
  ['malformed and hostile requests are rejected, at little cost', 'http', 'linear', 'fuzz'],
  ['each response reaches its client whole, or fails as one', 'upstream'],
  ['calls to the outside take the proxy that is set', 'outgoing'],
  ['limits and plans count the same at every gateway', 'limits'],
  ['each change of a key is saved, announced and audited', 'console', 'browser'],
  ['commands say what they did, and exit accordingly', 'cli'],
  ['wrong settings are named; reload and shutdown lose nothing', 'config', 'run', 'process'],
  ['metrics, alerts and dashboards match what happens', 'observability'],
  ['chart and image deploy what they document', 'helm', 'kubernetes', 'image'],
  ['documents are true, and imports point one way', 'docs', 'architecture'],
  ['what measures and searches is right itself', 'bench', 'mutation', 'support'],
  ['the same over minutes of load, at scale and after upgrades', 'qualify'],
]
/** Files of tests without a tool that are listed by name. */
const LISTED_FILES = 4

/** The tests of one file. */
export interface TestedFile {
  /** From the checkout, such as `test/cli/doctor.full.test.ts`. */
  readonly file: string
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** An error outside of its tests, so that some may not have run. */
  readonly isBroken: boolean
  /** Tools that its tests use and that this machine lacks, if it skipped some. */
  readonly missing: readonly Tool[]
}

export interface TestedRun {
  readonly files: readonly TestedFile[]
  readonly seconds: number
  /** Such as `Redis 7.0.15 on Node v24.21.0`. */
  readonly withWhat: string
  /** Of the tests that should run (`-t`). Vitest counts the others as skipped. */
  readonly namePattern: string | null
}

/** A few lines on what a run tested, and what it left out. They say nothing of files that did not run. */
export function summaryOf({ files: all, seconds, withWhat, namePattern }: TestedRun): string[] {
  const hasRun = ({ passed, failed, isBroken }: TestedFile) => passed + failed > 0 || isBroken
  const files = namePattern === null ? all : all.filter(hasRun)
  const total = (of: 'passed' | 'failed' | 'skipped', some = files) =>
    some.reduce((sum, one) => sum + one[of], 0)
  const broken = files.filter(({ isBroken }) => isBroken).length
  const rows = rowsOf(files).map(({ guarantee, folders, some }) => {
    const count = total('passed', some).toLocaleString('en')
    const failed = total('failed', some)
    const end = failed === 0 ? '' : `  ${failed} FAILED`
    return `${count.padStart(6)}  ${guarantee}  [${folders.join(' ')}]${end}`
  })
  const summary = `${total('passed')} tests of ${files.length} files passed and ${total('failed')} failed, in ${seconds} s with ${withWhat}`
  return [
    'Passed, by what the tests protect [and their folder of test/]:',
    ...rows,
    summary,
    ...(broken === 0 ? [] : [`${broken} files ended with an error outside of their tests: see above`]),
    ...(namePattern === null
      ? leftOutLines(files)
      : [`Only tests whose names match ${namePattern} were to run`]),
  ]
}

interface Row {
  readonly guarantee: string
  readonly folders: readonly string[]
  readonly some: readonly TestedFile[]
}

function rowsOf(files: readonly TestedFile[]): Row[] {
  const byFolder = Map.groupBy(files, folderOf)
  const known = new Set(PROTECTED.flatMap(([, ...folders]) => folders))
  const unknown = [...byFolder.keys()].filter(folder => !known.has(folder))
  return [...PROTECTED, ...unknown.map(folder => ['other tests', folder] as const)]
    .map(([guarantee, ...all]) => {
      const folders = all.filter(folder => byFolder.has(folder))
      return { guarantee, folders, some: folders.flatMap(folder => byFolder.get(folder) ?? []) }
    })
    .filter(({ folders }) => folders.length > 0)
}

/** A file beside the folders is a folder of its own. */
export function folderOf({ file }: Pick<TestedFile, 'file'>): string {
  return file.split('/')[1]?.replace(/\.test\.ts$/, '') ?? ''
}

function leftOutLines(files: readonly TestedFile[]): string[] {
  const some = files.filter(({ skipped }) => skipped > 0)
  if (some.length === 0) return []
  const count = some.reduce((sum, { skipped }) => sum + skipped, 0)
  const tools = [...new Set(some.flatMap(({ missing }) => missing))]
  const others = some.filter(({ missing }) => missing.length === 0)
  return [
    tools.length === 0
      ? `${count} tests were left out`
      : `${count} tests were left out. Missing here: ${tools.map(({ program }) => program).join(', ')}. To run them, too:`,
    ...commandsFor(tools).map(command => `  ${command}`),
    ...(others.length === 0 ? [] : ['Left out for another reason, which their names say:']),
    ...others.slice(0, LISTED_FILES).map(({ file, skipped }) => `  ${skipped} of ${file}`),
    ...(others.length > LISTED_FILES ? [`  and those of ${others.length - LISTED_FILES} other files`] : []),
  ]
}

/** They bring the tools, on Debian. */
export function commandsFor(tools: readonly Tool[]): string[] {
  const packages = tools.flatMap(({ otherwise, debianPackage }) =>
    otherwise === undefined ? [debianPackage] : [],
  )
  const apt = packages.length === 0 ? [] : [`sudo apt-get install ${[...new Set(packages)].join(' ')}`]
  return [...apt, ...tools.flatMap(({ otherwise }) => otherwise ?? [])]
}
