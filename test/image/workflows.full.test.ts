import { execFileSync, spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { ACTIONLINT, has, TOOLS } from '../support/tools.ts'

interface Step {
  readonly uses?: string
  readonly run?: string
}
interface Cached {
  readonly uses?: string
  readonly with: { readonly path: string; readonly key: string }
}
interface Job {
  readonly uses?: string
  readonly needs?: string
  readonly container?: { readonly image: string }
  readonly strategy?: { readonly matrix: { readonly part: readonly string[] } }
  readonly steps?: readonly Step[]
}
interface Workflow {
  readonly jobs: Readonly<Record<string, Job>>
}

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const textOf = (file: string) => readFileSync(`${CHECKOUT}${file}`, 'utf8')
const FILES = globSync('.github/workflows/*.yml', { cwd: CHECKOUT }).sort()
const workflow = (name: string) => parse(textOf(`.github/workflows/${name}.yml`)) as Workflow
const PREPARE = '.github/actions/prepare/action.yml'
const [ci, qualify, release] = [workflow('ci'), workflow('qualify'), workflow('release')]

describe('the workflows', () => {
  it('stop at a part that .ci/run does not have, before they install anything', () => {
    const { status, stderr } = spawnSync('bash', ['.ci/run', 'test'], { cwd: CHECKOUT, encoding: 'utf8' })
    expect([status, stderr]).toEqual([2, expect.stringContaining("no part 'test'")])
  })

  it('install each tool of the tests, without which a run of CI fails', () => {
    const words = new Set(textOf('.ci/run').match(/[\w.@/-]+/g))
    const packages = Object.values(TOOLS).map(({ debianPackage, otherwise }) => otherwise ?? debianPackage)
    const absent = packages.filter(name => name.split(' ').some(word => !words.has(word)))
    // They come with Debian, with ca-certificates and with redis-server.
    expect(absent.toSorted()).toEqual(['bsdutils', 'openssl', 'redis-tools', 'util-linux'])
  })

  it.skipIf(!has(ACTIONLINT))('have no mistake that actionlint finds', () => {
    expect(FILES).toEqual([
      '.github/workflows/ci.yml',
      '.github/workflows/qualify.yml',
      '.github/workflows/release.yml',
    ])
    expect(execFileSync('actionlint', ['-no-color'], { cwd: CHECKOUT, encoding: 'utf8' })).toBe('')
  })

  it('name each action by a commit, with the version beside it', () => {
    const lines = [...FILES, PREPARE].flatMap(file => textOf(file).match(/^.*\buses: .*$/gm) ?? [])
    const pinned = /uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d[\d.]*$/
    expect(lines.filter(line => !pinned.test(line)).map(line => line.trim())).toEqual([
      '- uses: ./.github/actions/prepare',
      'uses: ./.github/workflows/ci.yml',
      '- uses: ./.github/actions/prepare',
      'uses: ./.github/workflows/ci.yml',
    ])
    expect(lines.length).toBeGreaterThan(6)
  })

  it('run everything that must be green, on the base image of the Dockerfile, before anything is published', () => {
    const [, all = ''] = /^all=\((.*)\)$/m.exec(textOf('.ci/run')) ?? []
    expect(ci.jobs['part']?.steps?.at(-1)?.run).toMatch(/^bash \.ci\/run \$\{\{ matrix\.part \}\}$/)
    const words = ci.jobs['part']?.strategy?.matrix.part.flatMap(part => part.split(' ')) ?? []
    const isShard = (word: string) => word.startsWith('--shard=')
    expect(new Set(words.filter(word => !isShard(word)))).toEqual(new Set(all.split(' ')))
    const shards = words.filter(isShard)
    expect(shards).toEqual(shards.map((_, index) => `--shard=${index + 1}/${shards.length}`))
    const [, base] = /^ARG BUILD_IMAGE=(.+)$/m.exec(textOf('Dockerfile')) ?? []
    for (const { container } of [ci.jobs['part'], qualify.jobs['search']].map(job => job ?? {})) {
      expect(container?.image).toBe(base)
    }
    expect(release.jobs['ci']?.uses).toBe('./.github/workflows/ci.yml')
    expect(release.jobs['publish']?.needs).toBe('ci')
  })

  it('run each search at night, beside all that must be green', () => {
    const searches = textOf('test/qualify/run.ts')
      .match(/^ {2}\w+(?=: \[')/gm)
      ?.map(name => name.trim())
    const { search, ci: everything } = qualify.jobs
    expect(search?.strategy?.matrix.part).toEqual(searches?.map(name => `qualify --only=${name}`))
    expect(search?.steps?.at(-1)?.run).toBe(ci.jobs['part']?.steps?.at(-1)?.run)
    expect(everything?.uses).toBe('./.github/workflows/ci.yml')
  })

  it('name only files that are there in the keys of their caches, and every folder of a cache', () => {
    const { runs } = parse(textOf(PREPARE)) as { runs: { steps: readonly Cached[] } }
    const caches = runs.steps.flatMap(step => (step.uses?.startsWith('actions/cache@') ? [step.with] : []))
    const files = caches.flatMap(({ key }) => key.match(/(?<=')[\w./*-]+(?=')/g) ?? [])
    const absent = (file: string) => globSync(file, { cwd: CHECKOUT }).length === 0
    expect(files.filter(file => file !== 'tests' && absent(file))).toEqual([])
    // The builds of Traefik are for one machine alone.
    const uses = globSync('test/**/*.{ts,sh}', { cwd: CHECKOUT }).flatMap(file =>
      [...textOf(file).matchAll(/(?:cacheDirectory\('|\.cache\}\/)(postern-[\w-]+)/g)].map(
        ([, name]) => name,
      ),
    )
    const kept = caches.flatMap(({ path }) => path.match(/(?<=~\/\.cache\/)[\w-]+/g) ?? [])
    expect(kept.toSorted()).toEqual([...new Set(uses)].filter(name => name !== 'postern-traefik').toSorted())
  })

  it('name only build arguments that the Dockerfile has', () => {
    const used = [...textOf('.github/workflows/release.yml').matchAll(/--build-arg "?(\w+)/g)].map(
      ([, name]) => name,
    )
    const declared = [...textOf('Dockerfile').matchAll(/^ARG (\w+)/gm)].map(([, name]) => name)
    // The builder itself declares this one.
    expect(used.filter(name => !declared.includes(name))).toEqual(['SOURCE_DATE_EPOCH'])
  })
})

describe("the chart's annotations for Artifact Hub", () => {
  const text = textOf('helm/Chart.yaml')
  const { annotations } = parse(text) as { annotations: Record<string, string> }

  it('list changes of known kinds, licence, category and prerelease', () => {
    const changes = parse(annotations['artifacthub.io/changes'] ?? '') as { kind: string }[]
    const kinds = ['added', 'changed', 'deprecated', 'removed', 'fixed', 'security']
    expect(changes.map(({ kind }) => kind).filter(kind => !kinds.includes(kind))).toEqual([])
    expect(annotations).toMatchObject({
      'artifacthub.io/license': 'Apache-2.0',
      'artifacthub.io/category': 'security',
      'artifacthub.io/prerelease': expect.stringMatching(/^(true|false)$/),
    })
  })

  it('are the last block of Chart.yaml, to which a release adds the image', () => {
    const added = `${text.trimEnd()}\n  artifacthub.io/images: |\n    - name: postern\n      image: some:tag\n`
    const chart = parse(added) as { annotations: Record<string, string> }
    expect(parse(chart.annotations['artifacthub.io/images'] ?? '')).toEqual([
      { name: 'postern', image: 'some:tag' },
    ])
    expect(text.endsWith('\n')).toBe(true)
  })
})
