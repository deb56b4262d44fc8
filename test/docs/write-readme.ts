import { readFileSync, writeFileSync } from 'node:fs'
import { README, withCurrentSettings } from './settings-section.ts'

writeFileSync(README, withCurrentSettings(readFileSync(README, 'utf8')))
