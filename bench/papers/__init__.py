"""Experiments of papers: `report` (Huber 2018), `batch` (Valero-Lara 2018), and what they share."""
