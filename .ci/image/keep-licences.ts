// Copies the licences of packages, each under the place that its package has in node_modules.
// Usage: node keep-licences.ts NODE_MODULES TARGET
import { cpSync, globSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'

const LICENCE = /(?:^|\/)(?:licen[cs]e|copying|notice|copyright)[^/]*$/i
const CODE = /\.(?:[cm]?[jt]s|map|json)$/

const [packages, target] = process.argv.slice(2)
if (packages === undefined || target === undefined) {
  throw new Error('Usage: node keep-licences.ts NODE_MODULES TARGET')
}
for (const entry of globSync('**/*', { cwd: packages, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name).slice(join(packages, '/').length)
  if (!entry.isFile() || !LICENCE.test(path) || CODE.test(path)) continue
  mkdirSync(join(target, dirname(path)), { recursive: true })
  cpSync(join(packages, path), join(target, path))
}
