import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { CHECKOUT } from './world.ts'

/** Builds what the image runs. @param parent directory to build in @returns path of the entry */
export function buildForm(parent: string): string {
  const root = join(parent, 'built')
  mkdirSync(root)
  for (const place of ['config', 'package.json', 'src', 'tsconfig.json']) {
    cpSync(join(CHECKOUT, place), join(root, place), { recursive: true })
  }
  symlinkSync(join(CHECKOUT, 'node_modules'), join(root, 'node_modules'))
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' })
  return join(root, 'dist/main.js')
}
