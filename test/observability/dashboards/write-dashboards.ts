import { writeFileSync } from 'node:fs'
import { BOARDS, fileOf, textOf } from './boards.ts'

for (const board of BOARDS) writeFileSync(fileOf(board), textOf(board))
