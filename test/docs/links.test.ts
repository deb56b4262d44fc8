import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'helm/README.md',
  'helm/runbooks/*.md',
  'docs/**/*.md',
].flatMap(pattern => globSync(pattern, { cwd: ROOT }))

const read = (page: string) => readFileSync(join(ROOT, page), 'utf8')
const withoutCode = (markdown: string) => markdown.replaceAll(/^```[\s\S]*?^```/gm, '')

/** Anchors that GitHub generates for headings. */
function anchorsOf(page: string): string[] {
  const headings = [...withoutCode(read(page)).matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) => title)
  const slugs = headings.map(title =>
    title
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
  const repeated = slugs.map((slug, index) => {
    const earlier = slugs.slice(0, index).filter(other => other === slug).length
    return earlier === 0 ? slug : `${slug}-${earlier}`
  })
  const explicit = [...read(page).matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, name = '']) => name)
  return [...repeated, ...explicit]
}

function targetsIn(page: string): string[] {
  const text = withoutCode(read(page)).replaceAll(/`[^`\n]*`/g, '')
  const links = [...text.matchAll(/\]\(([^)\s]+)\)|\b(?:src|srcset|href)="([^"]+)"/g)]
  return links.map(([, link, attribute]) => link ?? attribute ?? '').filter(link => !/^[a-z]+:/.test(link))
}

function problemWith(page: string, target: string): string | null {
  const [path = '', anchor] = target.split('#')
  const file = path === '' ? page : relative(ROOT, join(ROOT, dirname(page), decodeURIComponent(path)))
  if (!existsSync(join(ROOT, file))) return 'no such file'
  if (anchor === undefined || statSync(join(ROOT, file)).isDirectory() || !file.endsWith('.md')) return null
  return anchorsOf(file).includes(anchor) ? null : 'no such heading'
}

test.each(PAGES)('every link in %s leads to a file, and to a heading of it', page => {
  const problems = targetsIn(page).flatMap(target => {
    const problem = problemWith(page, target)
    return problem === null ? [] : [`${target}: ${problem}`]
  })
  expect(problems).toEqual([])
})

test.each(PAGES)('every file of the repository that %s names exists', page => {
  const names = [
    ...read(page).matchAll(
      /`((?:src|test|config|helm|docs)\/[A-Za-z0-9_./-]*[A-Za-z0-9_-]|compose\.yaml|Dockerfile)`/g,
    ),
  ]
  const missing = names.map(([, name = '']) => name).filter(name => !existsSync(join(ROOT, name)))
  expect(missing).toEqual([])
})

test('docs/README.md leads to every page of docs', () => {
  const pages = globSync('docs/**/*.md', { cwd: ROOT }).filter(page => page !== 'docs/README.md')
  const linked = targetsIn('docs/README.md').map(target => join('docs', target))
  expect(pages.filter(page => !linked.includes(page))).toEqual([])
})

const kilobytesOf = (page: string) => Buffer.byteLength(read(page)) / 1024

test('the front page says what Postern does better and worse than others before how to try it', () => {
  const headings = [...read('README.md').matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
  expect(headings.slice(0, 2)).toEqual(['How it compares', 'Try it'])
})

test('the front page is at most 9 KB', () => {
  expect(kilobytesOf('README.md')).toBeLessThanOrEqual(9)
})
