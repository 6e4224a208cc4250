/* BCC's headers include it; our programs need nothing from it. */
