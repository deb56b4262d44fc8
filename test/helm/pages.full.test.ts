import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { CHART, runHelm } from '../support/chart.ts'
import { type Manifest, textAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const HELM_COMMAND = /^helm (?:-n postern )?(install|upgrade)(?: --install)? postern \.\/helm (.*)$/gm
/** Objects of the chart that a command of kubectl names. */
const NAMED_OBJECT = /\b(deployment|statefulset|httproute|service)[ /](postern[\w-]*)/g

interface PageCommand {
  readonly isUpgrade: boolean
  readonly flags: readonly string[]
}

/** Blocks of a page in this language, with continued lines joined. */
function blocksOf(page: string, language: string): string[] {
  const text = readFileSync(`${ROOT}${page}`, 'utf8')
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, block = '']) => block.replaceAll(/\\\n\s*/g, ''),
  )
}

function commandsOf(page: string): PageCommand[] {
  return blocksOf(page, 'sh').flatMap(block =>
    [...block.matchAll(HELM_COMMAND)].map(([, verb, flags = '']) => ({
      isUpgrade: verb === 'upgrade',
      flags: flags.split(' '),
    })),
  )
}

const PAGES = ['README.md', 'helm/README.md', ...globSync('docs/**/*.md', { cwd: ROOT })].filter(
  page => commandsOf(page).length > 0,
)
/** Options of an upgrade that rendering does not have. */
const FOR_CLUSTERS = /^--((reset-then-)?reuse-values|server-side=true|force-conflicts)$/
/** What `--reuse-values` and `--reset-then-reuse-values` keep of the first installation. */
const INSTALLED = commandsOf('docs/operate/install.md').flatMap(({ flags }) => flags)

/** What the command would install, with the page's values in place of the files that it names. */
function objectsOf(page: string, { isUpgrade, flags }: PageCommand): Manifest[] {
  const own = flags.filter(flag => !FOR_CLUSTERS.test(flag))
  const [values = ''] = blocksOf(page, 'yaml')
  const withValues = own.map((flag, index) => (own[index - 1] === '--values' ? '-' : flag))
  // Installed with a cluster, the chart sees whether it has generated secrets before.
  const allowed = ['--set', 'generatedSecret.withoutCluster=true']
  const args = ['template', 'postern', CHART, '--kube-version', '1.31.0', ...allowed]
  const { ok, stdout, stderr } = runHelm([...args, ...(isUpgrade ? INSTALLED : []), ...withValues], values)
  if (!ok) throw new Error(stderr)
  return parseAllDocuments(stdout)
    .map(document => document.toJS() as Manifest | null)
    .filter(object => object !== null)
}

describe.skipIf(!has(HELM))('the commands of Helm in the pages', () => {
  test('stand in README, chart, install, upgrade and each page of a proxy in front of the chart', () => {
    // A load balancer asks another port: its page installs nothing.
    const behind = globSync('docs/behind/!(load-balancers).md', { cwd: ROOT })
    const operate = ['install', 'upgrade'].map(name => `docs/operate/${name}.md`)
    const expected = ['README.md', 'helm/README.md', ...operate, ...behind]
    expect(PAGES.toSorted()).toEqual(expected.toSorted())
  })

  test.each(PAGES)('%s: the chart accepts the values, and makes the objects that commands name', page => {
    const objects = commandsOf(page).flatMap(command => objectsOf(page, command))
    const made = objects.map(object =>
      `${String(object['kind'])} ${textAt(object, 'metadata.name')}`.toLowerCase(),
    )
    const named = blocksOf(page, 'sh').flatMap(block =>
      [...block.matchAll(NAMED_OBJECT)].map(([, kind, name]) => `${kind} ${name}`),
    )
    expect(named.filter(name => !made.includes(name))).toEqual([])
    expect(made.length).toBeGreaterThan(5)
  })

  test('all install the same image', () => {
    const images = PAGES.flatMap(page =>
      commandsOf(page).flatMap(command => objectsOf(page, command)),
    ).flatMap(object => JSON.stringify(object).match(/"image":"[^"]*"/g) ?? [])
    expect([...new Set(images)]).toEqual(['"image":"registry.example.com/postern:0.1.0"'])
  })
})
