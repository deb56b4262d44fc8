import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { INSTALLATION_PAGES, OTHER_TESTED_PAGES } from './command-pages.ts'
import { shellBlocks } from './shell-blocks.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PAGES = ['README.md', 'helm/README.md', ...globSync('docs/**/*.md', { cwd: ROOT })]
const TESTED: readonly string[] = [...INSTALLATION_PAGES, ...OTHER_TESTED_PAGES]

describe.each(PAGES)('%s', page => {
  const markdown = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')

  test('each block of commands is run by a test, or says that it needs a cluster or a registry', () => {
    const unmarked = shellBlocks(page).filter(({ needs }) => needs === null)
    expect(unmarked.filter(({ text }) => /^(?:kubectl|helm|docker) /m.test(text))).toEqual([])
    expect(TESTED.includes(page) ? [] : unmarked.map(({ text }) => text)).toEqual([])
  })

  test('no block of commands is hidden from the tests by another name', () => {
    expect(shellBlocks(page)).toHaveLength([...markdown.matchAll(/^ *```sh$/gm)].length)
    const others = [...markdown.matchAll(/^ *```(?:shell|bash|console|zsh)$/gm)]
    // The client in curl, which test/docs/integrators.full.test.ts runs.
    expect(others).toHaveLength(page === 'docs/integrators.md' ? 1 : 0)
  })

  test('no command gets a secret as an argument, where other users can read it', () => {
    const secret = /--(?:token|password)[ =]|:\/\/[^\s/'"]*:[^\s/'"]*@|-H "Authorization: Bearer \$/
    const withSecret = shellBlocks(page).filter(({ text }) => secret.test(text))
    // A key of the demo, which exists in its memory only.
    expect(withSecret).toHaveLength(page === 'README.md' ? 1 : 0)
  })
})

const BESIDE = ['README.md', 'docs/quickstart.md', 'docs/integrators.md']

test.each(BESIDE)('%s has PowerShell beside the shell, in the words of Windows PowerShell 5.1 too', page => {
  const markdown = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  const blocks = [...markdown.matchAll(/^```powershell\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)
  expect(blocks).not.toEqual([])
  // `curl` is Invoke-WebRequest there, and `&&`, `export` and `\` at the end of a line are mistakes.
  const foreign = blocks.filter(text => /(?:^|[|;=] *)curl |&&|\|\||^export |\\$|\$\(cat /m.test(text))
  expect(foreign).toEqual([])
  const urls = blocks.flatMap(text => text.match(/\/api\/v1\/[^\s'"]+/g) ?? [])
  const shell = markdown.replaceAll(/^```powershell\n[\s\S]*?^```$/gm, '')
  expect(urls.filter(url => !shell.includes(url))).toEqual([])
})

test('each page whose blocks are run has some', () => {
  expect(TESTED.filter(page => shellBlocks(page).every(({ needs }) => needs !== null))).toEqual([])
})
