"""What a step costs at best, as tables: `python -m bench.roofline`. The model is node/engine/roofline.py."""

from __future__ import annotations

from node.engine.roofline import H200, QWEN3_5_9B, Device, Work, decode_plan, prompt_plan

ROWS = (1, 8, 32, 64, 128, 256)
CONTEXT = 2048  # tokens of each decoding sequence
PROMPTS = (1024, 2048, 8192, 32_768)


def table(work: Work, device: Device) -> str:
    moved = f"{device.bandwidth / 1e12:.1f} TB/s, {device.rate / 1e12:.0f} TFLOP/s"
    lines = [f"{work.name} on {device.name}: {moved}", f"  decode at {CONTEXT:,} tokens of context"]
    for rows in ROWS:
        plan = decode_plan(rows, CONTEXT)
        seconds = work.step_seconds(plan, device)
        moving = work.step_bytes(plan) / device.bandwidth
        lines.append(
            f"  {rows:>6} rows   {seconds * 1e3:>7.2f} ms  {rows / seconds:>8,.0f} tokens/s"
            f"  {moving / seconds:>4.0%} of it moving bytes"
        )
    lines.append("  prompts")
    for tokens in PROMPTS:
        seconds = work.step_seconds(prompt_plan(tokens), device)
        lines.append(f"  {tokens:>6} tokens {seconds * 1e3:>7.1f} ms  {tokens / seconds:>8,.0f} tokens/s")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(QWEN3_5_9B, H200))
